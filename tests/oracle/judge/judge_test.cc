// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "oracle/verdict/row.h"

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The vectorised form must pass the same rows as verdict.h's rules, element by element, with the same
// tightness at the same place. Fails if a NaN compares as a pass, if an infinite value passes within an
// infinite bound, or if a column of the last, short vector is left out.
TEST(JudgeRow, AgreesWithJudgeOnEveryElement) {
  std::mt19937 rng(1);
  int passed = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto count = static_cast<int64_t>(1 + rng() % 21);
    std::vector<double> value, bound, got;
    std::vector<Expect> expect;
    const bool odd = rng() % 2 == 0;
    for (int64_t j = 0; j < count; ++j) {
      const double v = static_cast<double>(rng() % 7) - 3, b = static_cast<double>(rng() % 4) / 4;
      double g = v + b * (static_cast<double>(rng() % 9) - 4) / 4;
      Expect e = Expect::kFinite;
      double used = b;
      if (odd && rng() % 16 == 0) g = std::vector<double>{kNaN, kInfinity, -kInfinity, 9}[rng() % 4];
      if (odd && rng() % 32 == 0) used = std::vector<double>{kNaN, kInfinity, -1}[rng() % 3];
      if (odd && rng() % 32 == 0) e = rng() % 2 == 0 ? Expect::kVacuous : Expect::kPlusZero;
      value.push_back(v), bound.push_back(used), got.push_back(g), expect.push_back(e);
    }
    const ElementRow row = {Output::kGradWeight, 0,   count, value.data(), bound.data(),
                            expect.data(),       0.25};
    const auto together = JudgeRowOfPasses(row, got.data());
    bool all = true;
    double tightness = 0;
    int64_t column = 0;
    for (int64_t j = 0; j < count; ++j) {
      const Element e = row.at(j);
      const JudgedElement one = Judge(row.output, e, got[static_cast<size_t>(j)]);
      all = all && e.expect == Expect::kFinite && e.bound >= 0 && e.bound < kInfinity &&
            one.verdict == Verdict::kPass;
      if (one.tightness > tightness) tightness = one.tightness, column = j;
    }
    ASSERT_EQ(together.has_value(), all) << trial;
    if (!all) continue;
    ++passed;
    EXPECT_EQ(together->tightness, tightness);
    EXPECT_EQ(together->column, column);
  }
  EXPECT_GT(passed, 5000);
}

}  // namespace
}  // namespace plumbline::oracle
