// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kDepth = 19;

// Calls check(problem) for all dtypes and a few seeds.
template <class Check>
void ForEachProblem(const std::string& keys, Check check) {
  for (const char* dtype : {"bf16", "fp16", "fp32"}) {
    for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
      Recipe recipe;
      std::string error;
      const std::string line =
          "v1 n=9 v=41 h=19 dtype=" + std::string(dtype) + " seed=" + seed + " " + keys;
      SCOPED_TRACE(line);
      ASSERT_TRUE(Parse(line, &recipe, &error)) << error;
      check(Expand(recipe));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

double Product(const OwnedProblem& p, int64_t i, int64_t v, int64_t d) {
  return static_cast<double>(p.hidden.GetFloat(i * kDepth + d)) * p.weight.GetFloat(v * kDepth + d);
}

// Fails if an addend reaches an ulp of the accumulator, or falls to half of one: then truncation loses
// nothing, or rounding to nearest loses as much.
TEST(ExpandProductsTest, TruncateHasAddendsJustUnderAnUlp) {
  ForEachProblem("values=truncate exp=3", [](const OwnedProblem& p) {
    int64_t columns = 0;
    for (int64_t v = 0; v < p.vocab(); ++v) {
      const double large = Product(p, 0, v, 0), addend = Product(p, 0, v, 1);
      if (addend == 0) continue;
      ++columns;
      const double ulp = std::ldexp(1.0, std::ilogb(large) - 23);
      EXPECT_LT(std::fabs(addend), ulp);
      EXPECT_GT(std::fabs(addend), 0.99 * ulp);
      EXPECT_EQ(std::signbit(addend), std::signbit(large));
    }
    EXPECT_GE(columns, 5);
  });
}

TEST(ExpandProductsTest, PositiveHasNoOtherSign) {
  ForEachProblem("values=positive exp=2", [](const OwnedProblem& p) {
    for (int64_t v = 0; v < p.vocab(); ++v) {
      double logit = 0;
      for (int64_t d = 0; d < kDepth; ++d) {
        EXPECT_GT(Product(p, 1, v, d), 0);
        logit += Product(p, 1, v, d);
      }
      EXPECT_GT(logit, 1);
      EXPECT_LT(logit, 16);
    }
  });
}

// Fails if either sign of zero, or a row of nothing else, is missing.
TEST(ExpandProductsTest, SignedZerosOfBothSigns) {
  int64_t empty_rows = 0;
  ForEachProblem("values=signed-zeros exp=1", [&](const OwnedProblem& p) {
    int64_t plus = 0, minus = 0;
    for (int64_t v = 0; v < p.vocab(); ++v) {
      bool empty = true;
      for (int64_t d = 0; d < kDepth; ++d) {
        const float w = p.weight.GetFloat(v * kDepth + d);
        plus += w == 0 && !std::signbit(w) ? 1 : 0;
        minus += w == 0 && std::signbit(w) ? 1 : 0;
        empty = empty && w == 0;
      }
      empty_rows += empty ? 1 : 0;
    }
    EXPECT_GE(plus, 41 * kDepth / 5);
    EXPECT_GE(minus, 41 * kDepth / 5);
  });
  EXPECT_GE(empty_rows, 18 * 41 / 8);
}

// Fails unless the last bit of every stored significand, which any cut removes, is 1.
TEST(ExpandProductsTest, FullBitsEndInOne) {
  ForEachProblem("values=full-bits exp=1", [](const OwnedProblem& p) {
    for (int64_t k = 0; k < p.hidden.size(); ++k) EXPECT_EQ(p.hidden.GetBits(k) & 1, 1u);
    for (int64_t k = 0; k < p.weight.size(); ++k) EXPECT_EQ(p.weight.GetBits(k) & 1, 1u);
  });
}

TEST(ExpandProductsTest, MassiveChannelsAreTheSameInEveryRow) {
  ForEachProblem("values=massive exp=1", [](const OwnedProblem& p) {
    std::set<int64_t> channels;
    for (int64_t i = 0; i < p.rows(); ++i) {
      std::set<int64_t> here;
      for (int64_t d = 0; d < kDepth; ++d) {
        const float x = std::fabs(p.hidden.GetFloat(i * kDepth + d));
        if (x >= 999) here.insert(d);
        EXPECT_TRUE(x >= 999 || x < 0.05F) << x;
      }
      if (i == 0) channels = here;
      EXPECT_EQ(here, channels);
    }
    EXPECT_GE(channels.size(), 1u);
    EXPECT_LE(channels.size(), 3u);
  });
}

// Fails if rows differ, or if all are the same: rows are copies times four factors.
TEST(ExpandProductsTest, LowRankRowsRepeat) {
  ForEachProblem("values=low-rank exp=1", [](const OwnedProblem& p) {
    std::set<std::vector<float>> rows;
    for (int64_t v = 0; v < p.vocab(); ++v) {
      std::vector<float> row;
      for (int64_t d = 0; d < kDepth; ++d) row.push_back(p.weight.GetFloat(v * kDepth + d) + 0.0F);
      rows.insert(row);
    }
    EXPECT_GE(rows.size(), 4u);
    EXPECT_LE(rows.size(), 13u);
  });
}

// Fails if exponents stay in the middle, subnormals never come, or products are never of order 1.
TEST(ExpandProductsTest, ExponentsReachBothEnds) {
  int64_t everywhere = 0, opposite = 0;
  ForEachProblem("values=all-exponents", [&](const OwnedProblem& p) {
    const bool narrow = p.weight.dtype == kernel::DType::kF16;
    int64_t subnormal = 0, large = 0;
    for (int64_t k = 0; k < p.weight.size(); ++k) {
      const float x = std::fabs(p.weight.GetFloat(k));
      subnormal += x < (narrow ? 0x1p-14F : 0x1p-126F) ? 1 : 0;
      large += x >= (narrow ? 0x1p5F : 0x1p50F) ? 1 : 0;
    }
    everywhere += subnormal >= 5 && large >= 5 ? 1 : 0;
    bool of_order_one = true;
    for (int64_t d = 0; d < kDepth; ++d) {
      const double product = std::fabs(Product(p, 0, 0, d));
      of_order_one = of_order_one && product > 0x1p-4 && product < 4;
    }
    opposite += of_order_one ? 1 : 0;
  });
  EXPECT_GE(everywhere, 1);
  EXPECT_GE(opposite, 9);
  ForEachProblem("values=bit-patterns exp=50", [](const OwnedProblem& p) {
    std::set<int> exponents;
    for (int64_t k = 0; k < p.weight.size(); ++k) exponents.insert(std::ilogb(p.weight.GetFloat(k)));
    EXPECT_GE(exponents.size(), 20u);
  });
}

}  // namespace
}  // namespace plumbline::fuzz
