// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

// In every entry the second value is the square of the first, as an exact product may be: no value can
// change by itself, and they cannot all be rounded. Odd entries must meet more conditions than even
// ones. Fails if neutralising only uses zeros, or uses no run of a single entry.
TEST(ShrinkValues, NeutralisesWithACopyWhereZerosWillNotDo) {
  const auto fails = [](const OwnedProblem& p) {
    if (p.vocab() != 40 || p.hidden_size() != 2) return false;
    for (int64_t v = 0; v < 40; ++v) {
      const float a = p.weight.GetFloat(2 * v), b = p.weight.GetFloat(2 * v + 1);
      if (!(a > (v % 2 == 1 ? 1.7f : 1.2f)) || b != a * a) return false;
    }
    return true;
  };
  OwnedProblem start = Busy(3, 40, 2);
  std::vector<float> expected;
  for (int64_t v = 0; v < 40; ++v) {
    const float a = v % 2 == 1 ? 1.75f : v == 22 ? 1.5f : 1.25f + 0.125f * static_cast<float>(v % 4);
    start.weight.SetFloat(2 * v, a);
    start.weight.SetFloat(2 * v + 1, a * a);
    const float final = v % 2 == 1 ? 1.75f : 1.5f;
    expected.insert(expected.end(), {final, final * final});
  }
  ASSERT_TRUE(fails(start));
  const ShrinkResult r = Checked(start, {"lse", 0, -1}, fails);
  EXPECT_EQ(Floats(r.problem.weight), expected);
}

// Fails if values change only one at a time: then both stay 1.734375.
TEST(ShrinkValues, EqualValuesChangeTogether) {
  OwnedProblem start = Busy(1, 30, 50);
  start.hidden.SetFloat(11, 1.734375f);
  start.weight.SetFloat(29 * 50 + 11, 1.734375f);
  const auto fails = [](const OwnedProblem& p) {
    for (const float h : Floats(p.hidden)) {
      const std::vector<float> weight = Floats(p.weight);
      if (h > 1.5f && std::find(weight.begin(), weight.end(), h) != weight.end()) return true;
    }
    return false;
  };
  const ShrinkResult r = Checked(start, {"logprob", 0, -1}, fails);
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(2));
  EXPECT_THAT(Floats(r.problem.weight), ::testing::ElementsAre(2));
}

// A value and its opposite cancel, with one between them that keeps all its bits. Fails if groups are
// of equal bits and not of equal magnitude.
TEST(ShrinkValues, OppositeValuesChangeTogether) {
  constexpr float kExact = 1.0078125f;
  OwnedProblem start = Busy(1, 2, 40);
  start.hidden.SetFloat(7, 1.59375f);
  start.hidden.SetFloat(20, kExact);
  start.hidden.SetFloat(31, -1.59375f);
  const auto fails = [](const OwnedProblem& p) {
    const std::vector<float> h = Floats(p.hidden);
    const auto has = [&](float x) { return std::find(h.begin(), h.end(), x) != h.end(); };
    return has(kExact) &&
           std::any_of(h.begin(), h.end(), [&](float x) { return x > 1.25f && has(-x); });
  };
  const ShrinkResult r = Checked(start, {}, fails);
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(2, kExact, -2));
  EXPECT_EQ(r.problem.vocab(), 1);
}

// Only the sum matters, and both values must be there. Fails if pairs do not change together: neither
// of the two can change alone.
TEST(ShrinkValues, PairsKeepTheirSum) {
  OwnedProblem start = Busy(1, 1, 2);
  start.hidden.SetFloat(0, 3.3125f);
  start.hidden.SetFloat(1, 5.1875f);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    const std::vector<float> h = Floats(p.hidden);
    return h.size() == 2 && h[0] != 0 && h[1] != 0 && h[0] + h[1] == 8.5f;
  });
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::UnorderedElementsAre(0.5f, 8));
}

// Every value has its own range, and one keeps all its bits. Fails if values change only in groups.
TEST(ShrinkValues, EachValueGoesAsFarAsItCan) {
  constexpr float kExact = 1.0078125f;
  OwnedProblem start = Busy(1, 2, 4);
  for (const auto& [i, x] : {std::pair{0, 3.203125f}, {1, -6.71875f}, {2, 0.31640625f}, {3, kExact}}) {
    start.hidden.SetFloat(i, x);
  }
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    const std::vector<float> h = Floats(p.hidden);
    return h.size() == 4 && h[0] > 2.5f && h[0] < 3.5f && h[1] > -7.5f && h[1] < -6.5f && h[2] > 0.3f &&
           h[2] < 0.35f && h[3] == kExact;
  });
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(3, -7, 0.3125f, kExact));
}

// 2 000 values may be anything but 0, and 64 must stay. Fails if each takes its own tries.
TEST(ShrinkValues, RunsOfValuesChangeAtOnce) {
  OwnedProblem start = Busy(1, 500, 4, DType::kF32);
  const auto original = [](int64_t i) { return 1 + static_cast<float>(i + 1) * 0x1p-13f; };
  for (int64_t i = 0; i < 2000; ++i) start.weight.SetFloat(i, original(i));
  const ShrinkResult r = Checked(start, {}, [&](const OwnedProblem& p) {
    if (p.vocab() != 500 || p.hidden_size() != 4) return false;
    for (int64_t i = 0; i < 2000; ++i) {
      if (p.weight.GetFloat(i) == 0 || (i < 64 && p.weight.GetFloat(i) != original(i))) return false;
    }
    return true;
  });
  const std::vector<float> weight = Floats(r.problem.weight);
  EXPECT_EQ(std::count(weight.begin(), weight.end(), 1.0f), 2000 - 64);
  EXPECT_LT(r.accepted, 200);
}

// The logits 3 and 6 come from 2^12, 2^13 and 3 2^-12: no value can change alone. Fails if powers of
// two do not move from tensor to tensor. (With more rows than columns there is no folding.)
TEST(ShrinkValues, PowersOfTwoMoveBetweenTensors) {
  OwnedProblem start = Busy(2, 1, 1);
  start.hidden.SetFloat(0, 0x1p12f);
  start.hidden.SetFloat(1, 0x1p13f);
  start.weight.SetFloat(0, 3 * 0x1p-12f);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    return p.rows() == 2 && p.hidden.GetFloat(0) * p.weight.GetFloat(0) == 3 &&
           p.hidden.GetFloat(1) * p.weight.GetFloat(0) == 6;
  });
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(Floats(r.problem.weight), ::testing::ElementsAre(3));
}

// Fails if a temperature that scales what matters cannot be folded into hidden.
TEST(ShrinkValues, TemperatureMovesIntoHidden) {
  OwnedProblem start = Busy(2, 1, 1);
  start.temperature = HostTensor::Zeros(DType::kF32, {});
  start.temperature->SetFloat(0, 8);
  for (const int64_t i : {0, 1}) start.hidden.SetFloat(i, 8);
  start.weight.SetFloat(0, 3);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    const float t = p.temperature ? p.temperature->GetFloat(0) : 1;
    return p.rows() == 2 && p.hidden.GetFloat(0) * p.weight.GetFloat(0) / t == 3;
  });
  EXPECT_EQ(r.problem.temperature, std::nullopt);
  EXPECT_EQ(r.problem.hidden.GetFloat(0) * r.problem.weight.GetFloat(0), 3);
}

// Only a difference matters. Fails if a common offset cannot be subtracted from a whole column.
TEST(ShrinkValues, CommonOffsetGoes) {
  OwnedProblem start = Busy(1, 2, 1);
  start.weight.SetFloat(0, 100);
  start.weight.SetFloat(1, 105);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    return p.vocab() == 2 && p.weight.GetFloat(1) - p.weight.GetFloat(0) == 5;
  });
  EXPECT_THAT(Floats(r.problem.weight), ::testing::ElementsAre(0, 5));
}

// Only the logits matter, of three rows at least, and no single column makes them. Fails if the only
// way is to delete columns: 121 of them would stay.
TEST(ShrinkValues, LogitsFoldIntoOneColumnARow) {
  OwnedProblem start = Busy(5, 50, 128);
  for (int64_t i = 0; i < start.hidden.size(); ++i) start.hidden.SetFloat(i, 1);
  for (int64_t i = 0; i < start.weight.size(); ++i) {
    start.weight.SetFloat(i, i / 128 == 31 ? -0.125f : -0.25f);
  }
  const auto fails = [](const OwnedProblem& p) {
    const int64_t width = p.hidden_size();
    for (int64_t i = 0; i < p.rows(); ++i) {
      double least = 0, most = -1e30;
      for (int64_t v = 0; v < p.vocab(); ++v) {
        double z = 0;
        for (int64_t d = 0; d < width; ++d) {
          z += static_cast<double>(p.hidden.GetFloat(i * width + d)) *
               static_cast<double>(p.weight.GetFloat(v * width + d));
        }
        least = std::min(least, z);
        most = std::max(most, z);
      }
      if (!(most < -15 && least < most - 10)) return false;
    }
    return p.rows() >= 3;
  };
  const ShrinkResult r = Checked(start, {"entropy", 2, -1}, fails);
  EXPECT_LE(r.problem.hidden_size(), 3);
  EXPECT_EQ(r.problem.vocab(), 2);
}

}  // namespace
}  // namespace plumbline::fuzz
