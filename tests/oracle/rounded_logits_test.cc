// SPDX-License-Identifier: Apache-2.0
//
// Contracts that store logits in 16 bits: the reference rounds as the arbiter does, in every element,
// and only a logit near a tie widens a bound.

#include "oracle/budget/rounded_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/drawn_kernel.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Fails if a number is rounded to another neighbour than the kernels' own conversions round it to.
TEST(RoundedLogits, RoundsAsTheConversionsOfTheKernels) {
  std::mt19937 rng(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(RoundTo(DType::kBf16, x), kernel::ToFloat(kernel::ToBFloat16(x))) << x;
    const float small = std::ldexp(x, std::ilogb(x) > 20 || std::ilogb(x) < -30 ? -std::ilogb(x) : 0);
    ASSERT_EQ(RoundTo(DType::kF16, small), kernel::ToFloat(kernel::ToFloat16(small))) << small;
    ASSERT_EQ(RoundTo(DType::kF32, x), x);
  }
  EXPECT_EQ(RoundTo(DType::kF16, 65519.99), 65504);
  EXPECT_EQ(RoundTo(DType::kF16, 65520), kInfinity);
  EXPECT_EQ(RoundTo(DType::kBf16, -0x1.ff8p127), -kInfinity);
  EXPECT_EQ(RoundTo(DType::kBf16, 1 + 0x1p-8), 1);  // ties to even
  EXPECT_EQ(RoundTo(DType::kBf16, 1 + 0x3p-8), 1 + 0x4p-8);
}

// Fails if a sum loses what cancels.
TEST(RoundedLogits, SumsWithoutAnError) {
  ExactSum sum;
  for (const double x : {1.0, 0x1p100, 0x1p-200, -0x1p100, -1.0}) sum.Add(x);
  EXPECT_EQ(sum.Nearest(), 0x1p-200);
  sum.Add(-0x1p-200);
  EXPECT_EQ(sum.Nearest(), 0);
}

// Fails if reference and arbiter round a logit, or an upstream gradient, to different neighbours, or if
// one of them rounds twice or before the temperature where it should after.
TEST(RoundedLogits, ReferenceAndArbiterAgree) {
  Agreement agreement;
  for (uint64_t seed = 0; seed < 1200 && agreement.first.empty(); ++seed) {
    Dice dice(seed);
    const Ranges ranges = seed % 4 == 0 ? Ranges{60, 99, true} : Ranges{};
    SmallProblem p = DrawProblem(&dice, ranges);
    Contract contract = DrawNarrowContract(&dice, ranges);
    Compare(p.View(), contract, 1, &agreement);
    ASSERT_EQ(agreement.first, "") << "seed " << seed;
  }
  EXPECT_GT(agreement.Finite(Output::kLogprob), 500);
  EXPECT_GT(agreement.Finite(Output::kGradWeight), 5000);
}

// z = tie + 2^-60, where fp64 sees the tie alone: products of 2^40 cancel around it. Fails if the
// reference decides such a logit by its fp64 sum.
TEST(RoundedLogits, DecidesATieThatFp64CannotSee) {
  for (const double below : {-1.0, 0.0, 1.0}) {
    SmallProblem p;
    p.n = 1;
    p.v = 2;
    p.h = 4;
    p.hidden = BitsOf({0x1p20f, 1, 0x1p-30f, 0x1p20f});
    p.weight =
        BitsOf({0x1p20f, 1 + 0x1p-8f, static_cast<float>(below * 0x1p-30), -0x1p20f, 0, 0, 0, 0});
    p.labels = {0};
    p.grad_logprob = {1};
    Contract contract = CarefulContract();
    contract.logits = DType::kBf16;
    Agreement agreement;
    Compare(p.View(), contract, 1, &agreement);
    EXPECT_EQ(agreement.first, "") << below;
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, DType::kF32), contract);
    const double logit = below > 0 ? 1 + 0x1p-7 : 1;
    EXPECT_NEAR(expected[Output::kLse].at(0, 0).value, std::log(std::exp(logit) + 1), 1e-12) << below;
  }
}

// The median over rows of the allowed error of logprob.
double MedianBound(int64_t hidden, const Contract& contract) {
  SmallProblem p;
  Dice dice(7);
  p.n = 9;
  p.v = 512;
  p.h = hidden;
  p.dtype = DType::kBf16;
  const float scale = 3 / std::sqrt(static_cast<float>(hidden));
  const auto normal = [&] {  // near enough
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += dice.Unit();
    return sum / 2;
  };
  for (int64_t e = 0; e < p.n * p.h; ++e) p.hidden.push_back(Pattern(p.dtype, normal()));
  for (int64_t e = 0; e < p.v * p.h; ++e) p.weight.push_back(Pattern(p.dtype, normal() * scale));
  for (int64_t i = 0; i < p.n; ++i) p.labels.push_back(dice.Range(0, p.v - 1));
  const kernel::Problem problem = p.View();
  kernel::Results wanted;
  wanted.logprob = Everything(problem, DType::kF32).logprob;
  const Expectation expected = Expected(problem, wanted, contract);
  std::vector<double> bounds;
  for (const Element& e : expected[Output::kLogprob].elements) bounds.push_back(e.bound);
  std::nth_element(bounds.begin(), bounds.begin() + 4, bounds.end());
  return bounds[4];
}

// Fails if rounded logits cost more than the ties among them: half an ulp of bf16 in each would be 30
// (H = 4096) to 1000 (H = 64) times what fp32 logits may err.
TEST(RoundedLogits, AreJudgedNearlyAsSharplyAsLogitsInFp32) {
  for (const int64_t hidden : {64, 256, 1024, 4096}) {
    Contract contract = CarefulContract();
    const double fp32 = MedianBound(hidden, contract);
    contract.logits = DType::kBf16;
    const double bf16 = MedianBound(hidden, contract);
    EXPECT_LT(bf16, 10 * fp32) << "H = " << hidden;
    RecordProperty("H" + std::to_string(hidden), std::to_string(bf16 / fp32));
    std::printf("H = %d: median bound of logprob %.3g in fp32, %.3g in bf16\n",
                static_cast<int>(hidden), fp32, bf16);
  }
}

}  // namespace
}  // namespace plumbline::oracle
