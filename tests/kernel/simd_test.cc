// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/simd.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tests/kernel/support/instruction_sets.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::host {
namespace {

using SimdTest = OnEveryTarget;

// Fails if the dispatch always falls back to one target, which would make the tests below vacuous.
TEST_F(SimdTest, HasABaselineAndAFasterTarget) {
  ASSERT_GE(Targets().size(), 1u);
#if defined(__x86_64__)
  EXPECT_NE(CompiledTargets() & HWY_AVX2, 0);
  EXPECT_NE(CompiledTargets() & (HWY_SCALAR | HWY_EMU128), 0);
#endif
}

// Each element must be one chain of std::fma. Fails with another order, a product that is rounded
// separately, a row or panel mixed up, or a remainder of rows, panels or depth dropped.
TEST_F(SimdTest, DotProductsAreOneChainEach) {
  TestRandom random(11);
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const int64_t rows : {1, 2, 5, 6, 7, 13}) {
      for (const int64_t panels : {1, 2, 3, 4, 5}) {
        for (const int64_t depth : {1, 3, 17}) {
          std::vector<float> a(static_cast<size_t>(rows * (depth + 3)));
          std::vector<float> storage(static_cast<size_t>(panels * depth * kPanel) + 16);
          void* aligned = storage.data();
          size_t space = storage.size() * sizeof(float);
          auto* const b = static_cast<float*>(std::align(64, 64, aligned, space));
          for (float& x : a) x = random.Bell();
          for (int64_t i = 0; i < panels * depth * kPanel; ++i) b[i] = random.Bell();
          const int64_t stride = panels * kPanel + 1;
          std::vector<float> c(static_cast<size_t>(rows * stride), 0.3f);
          for (const bool accumulate : {false, true}) {
            const std::vector<float> before = c;
            DotProducts({a.data(), depth + 3, b, depth, rows, panels, c.data(), stride, accumulate});
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t j = 0; j < panels * kPanel; ++j) {
                float sum = accumulate ? before[static_cast<size_t>(r * stride + j)] : 0.0f;
                for (int64_t k = 0; k < depth; ++k) {
                  sum = std::fma(a[static_cast<size_t>(r * (depth + 3) + k)],
                                 b[(j / kPanel * depth + k) * kPanel + j % kPanel], sum);
                }
                ASSERT_EQ(std::bit_cast<uint32_t>(c[static_cast<size_t>(r * stride + j)]),
                          std::bit_cast<uint32_t>(sum))
                    << hwy::TargetName(target) << " rows " << rows << " panels " << panels << " depth "
                    << depth;
              }
              // The column past the panels must not be written.
              ASSERT_EQ(c[static_cast<size_t>(r * stride + panels * kPanel)], 0.3f);
            }
          }
        }
      }
    }
  }
}

// The largest errors over every `step`-th float: relative ones on [0, 87] in units of 2^-24, and
// absolute ones beyond that relative part, above 87, in units of 2^-149.
struct ExpErrors {
  double relative = 0, gradual = 0;
};
ExpErrors MeasureExp(uint32_t step) {
  ExpErrors worst;
  float z[kPanel], t[kPanel], e[kPanel];
  const uint32_t end = std::bit_cast<uint32_t>(106.0f);
  for (uint32_t first = 0; first <= end; first += step * static_cast<uint32_t>(kPanel)) {
    for (uint32_t i = 0; i < kPanel; ++i) z[i] = -std::bit_cast<float>(first + i * step);
    Exponentials(z, 0, 1, kPanel, t, e);
    for (int64_t i = 0; i < kPanel; ++i) {
      // The reference's own error, an ulp of fp64, is 2^-28 of these units.
      const double exact = std::exp(static_cast<double>(z[i]));
      const double error = std::fabs(static_cast<double>(e[i]) - exact);
      if (-z[i] <= 87) {
        worst.relative = std::max(worst.relative, error / exact * 0x1p24);
      } else {
        worst.gradual = std::max(worst.gradual, (error - 2 * 0x1p-24 * exact) * 0x1p149);
      }
    }
  }
  return worst;
}

// The declared errors, on a sample of some 300 000 floats a target. Fails with a polynomial of too low
// a degree, an inexact reduction, or results flushed below 2^-126.
TEST_F(SimdTest, ExponentialKeepsItsDeclaredError) {
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    const ExpErrors errors = MeasureExp(3571);
    EXPECT_LE(errors.relative, 2) << hwy::TargetName(target);
    EXPECT_LE(errors.gradual, 0.5) << hwy::TargetName(target);
    EXPECT_GT(errors.relative, 0.5) << "less than a rounding: the measurement is broken";
  }
}

// The same on all floats from 0 to 106.
TEST(SlowSimdTest, ExponentialKeepsItsDeclaredErrorEverywhere) {
  const ExpErrors errors = MeasureExp(1);
  EXPECT_LE(errors.relative, 2);
  EXPECT_LE(errors.gradual, 0.5);
}

// Fails if a special value is not what kernel/host/simd.h says, on any target.
TEST_F(SimdTest, ExponentialOfSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    float z[kPanel] = {0, -0.0f, -kInf, kNaN, -1e30f, -104, -103, -0x1p-149f};
    float t[kPanel], e[kPanel];
    Exponentials(z, 0, 1, kPanel, t, e);
    EXPECT_EQ(e[0], 1);
    EXPECT_EQ(e[1], 1);
    EXPECT_EQ(e[2], 0);
    EXPECT_EQ(t[2], kInf);
    EXPECT_TRUE(std::isnan(e[3]));
    EXPECT_EQ(e[4], 0);
    EXPECT_EQ(e[5], 0);
    EXPECT_EQ(e[6], 0x1p-149f);
    EXPECT_EQ(e[7], 1);
    // A logit of -inf under a maximum of -inf is no column. It must not give NaN.
    std::fill_n(z, kPanel, -kInf);
    Exponentials(z, -kInf, 1, kPanel, t, e);
    EXPECT_EQ(e[0], 0);
    EXPECT_EQ(t[0], kInf);
    // A difference beyond the range of fp32 gives a weight of 0.
    std::fill_n(z, kPanel, -3e38f);
    Exponentials(z, 3e38f, 0.5f, kPanel, t, e);
    EXPECT_EQ(e[0], 0);
  }
}

// t is one rounded subtraction and one rounded division. t and e must have the same bits on every
// target. Fails with a reciprocal, a fused shift, or code of one target that contracts differently.
TEST_F(SimdTest, ExponentialsHaveTheSameBitsEverywhere) {
  constexpr int64_t kCount = 4096;
  TestRandom random(5);
  std::vector<float> z(kCount), t(kCount), e(kCount), first_t, first_e;
  for (float& x : z) x = 30 * random.Bell() - 200;
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    Exponentials(z.data(), 1, 0.7f, kCount, t.data(), e.data());
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(t[i], (1 - z[i]) / 0.7f);
    if (first_t.empty()) {
      first_t = t;
      first_e = e;
    }
    EXPECT_EQ(t, first_t) << hwy::TargetName(target);
    EXPECT_EQ(e, first_e) << hwy::TargetName(target);
  }
}

// The published order of the sums is spelled out. Fails with another tree, lanes that depend on the
// vector, a moment that is fused or NaN at weight 0, or a maximum that loses a NaN.
TEST_F(SimdTest, TilesAreSummedInThePublishedOrder) {
  TestRandom random(6);
  for (int trial = 0; trial < 50; ++trial) {
    float z[kTile], t[kTile], e[kTile];
    for (float& x : z) x = 8 * random.Bell();
    if (trial % 5 == 1) z[trial] = -std::numeric_limits<float>::infinity();
    if (trial % 5 == 2) z[trial] = -1e9f;
    if (trial % 5 == 3) std::fill_n(z + 20, 44, -std::numeric_limits<float>::infinity());
    const float m = *std::max_element(z, z + kTile);
    Exponentials(z, m, 1.3f, kTile, t, e);
    const auto lane = [&](const auto& term, int j) {
      return ((term(j) + term(j + 16)) + term(j + 32)) + term(j + 48);
    };
    const auto tree = [&](const auto& term) {
      const auto two = [&](int j) { return lane(term, j) + lane(term, j + 8); };
      const auto four = [&](int j) { return two(j) + two(j + 4); };
      return (four(0) + four(2)) + (four(1) + four(3));
    };
    const float s = tree([&](int j) { return e[j]; });
    const float q = tree([&](int j) { return e[j] == 0 ? 0 : e[j] * t[j]; });
    for (const int64_t target : Targets()) {
      hwy::SetSupportedTargetsForTest(target);
      const TileSums sums = SumTile(z, m, 1.3f);
      EXPECT_EQ(sums.s, s) << hwy::TargetName(target);
      EXPECT_EQ(sums.q, q) << hwy::TargetName(target);
      EXPECT_EQ(TileMaximum(z), m) << hwy::TargetName(target);
      for (int j = 0; j < kTile; ++j) {
        const float before = z[j];
        z[j] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_TRUE(std::isnan(TileMaximum(z))) << hwy::TargetName(target) << " column " << j;
        z[j] = before;
      }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace
}  // namespace plumbline::kernel::host
