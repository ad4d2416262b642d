// SPDX-License-Identifier: Apache-2.0
//
// A kernel that commits one declared error in full, far above what careful kernels declare, at every
// place where the definitions have such an operation. Each test fails for a bound that charges the
// error at some of these places only, and where the bound is so wide that no kernel comes near it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/row.h"
#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/drawn_kernel.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using kernel::Reduction;

// Rows whose dot products are one exact product, so that the logits, weight / T, have no other error.
SmallProblem RowsOf(const std::vector<float>& logits, float temperature, Reduction reduction) {
  SmallProblem p;
  p.n = 3;
  p.v = static_cast<int64_t>(logits.size());
  p.h = 1;
  p.hidden = BitsOf({1, 1, 1});
  p.weight = BitsOf(logits);
  p.labels = {0, 1, p.v - 1};
  p.temperature.assign(3, temperature);
  p.reduction = reduction;
  p.grad_logprob.assign(reduction == Reduction::kNone ? 3 : 1, 1.3f);
  p.grad_entropy = {0, 0.7f, -0.4f};
  return p;
}

Tightest Judged(SmallProblem p, const Contract& contract) {
  Tightest tightest;
  const kernel::Problem problem = p.View();
  const Expectation expected = Expected(problem, Everything(problem, DType::kF32), contract);
  for (uint64_t seed = 0; seed < 300 && !::testing::Test::HasFatalFailure(); ++seed) {
    JudgeOne(problem, contract, expected, seed, "seed " + std::to_string(seed), &tightest);
  }
  return tightest;
}

double Of(const Tightest& t, Output output) { return t.of[static_cast<size_t>(output)]; }

const std::vector<float> kUneven = {3, 1, -2, 2.5f, 0.5f, -1, 1.5f, 2};

// The quotients are e/s, the sum of e t by s, the loss by n, gamma by n and dx by T. Fails for a bound
// that charges division_error in e/s alone.
TEST(DeclaredLimits, EveryQuotientErrs) {
  for (const double error : {64.0, kMostError}) {
    Contract c = CarefulContract();
    c.division_error = error;
    const Tightest mean = Judged(RowsOf(kUneven, 0.75f, Reduction::kMean), c);
    EXPECT_GT(Of(mean, Output::kEntropy), 0.5) << error;
    EXPECT_GT(Of(mean, Output::kLoss), 0.5) << error;
    EXPECT_GT(Of(mean, Output::kGradHidden), 0.3) << error;
    EXPECT_GT(Of(mean, Output::kGradWeight), 0.3) << error;
    Judged(RowsOf(kUneven, 0.75f, Reduction::kNone), c);
  }
}

// In rows of equal logits t is 0 and x - lse is not, so only ln s carries the roundings of the
// exponent. Fails for a bound that charges argument_roundings relative to t where p is exp(x - lse).
TEST(DeclaredLimits, TheExponentOfExpOfLseIsNotTheGap) {
  for (const double roundings : {64.0, kMostError}) {
    for (const bool plain : {false, true}) {
      Contract c = CarefulContract();
      c.argument_roundings = roundings;
      c.probability = Probability::kExpOfLse;
      c.plain_logprob = plain;
      const Tightest even = Judged(RowsOf(std::vector<float>(40, 1), 1, Reduction::kNone), c);
      EXPECT_GT(Of(even, Output::kGradHidden), 0.3) << roundings;
      EXPECT_GT(Of(even, Output::kGradWeight), 0.3) << roundings;
      if (plain) {
        EXPECT_GT(Of(even, Output::kLogprob), 0.5) << roundings;
      }
      Judged(RowsOf(kUneven, 0.75f, Reduction::kMean), c);
    }
  }
}

// A kernel whose 1/T is wrong by the roundings that it declares uses it for dz too, and for the label's
// logit of x_y - lse. Fails for a bound that charges scale_roundings in the logits alone.
TEST(DeclaredLimits, TheScaleErrsInGradientsToo) {
  for (const double roundings : {64.0, kMostError}) {
    for (const Scale scale : {Scale::kBefore, Scale::kAfter}) {
      for (const bool plain : {false, true}) {
        Contract c = CarefulContract();
        c.scale = scale;
        c.scale_roundings = roundings;
        c.plain_logprob = plain;
        const Tightest t = Judged(RowsOf({0.01f, 0, 0.02f, 0.01f}, 0.7f, Reduction::kNone), c);
        EXPECT_GT(Of(t, Output::kGradWeight), 0.3) << roundings;
        std::vector<float> far = kUneven;
        for (float& x : far) x += 1000;
        Judged(RowsOf(far, 0.7f, Reduction::kMean), c);
      }
    }
  }
}

// g/T and k/T are 2^138 and the label's 1 - p is 2^-34. A kernel that divides by T first gets infinity
// times p - 1 or NaN, another gets the gradient. Fails if a value is required of both.
TEST(DeclaredLimits, AnUpstreamGradientThatOverflowsByT) {
  for (const bool of_entropy : {false, true}) {
    SmallProblem p = RowsOf({24 * 0x1p-80f, 0}, 0x1p-80f, Reduction::kNone);
    p.labels = {0, 0, 0};
    p.grad_logprob.assign(3, of_entropy ? 0 : 0x1p58f);
    p.grad_entropy.assign(3, of_entropy ? 0x1p58f : 0);
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, DType::kF32), Contract());
    EXPECT_EQ(expected[Output::kGradHidden].at(0, 0).expect, Expect::kUnspecified);
    EXPECT_EQ(expected[Output::kGradWeight].at(1, 0).expect, Expect::kUnspecified);
    Judged(p, Contract());
    // At 2^47 nothing overflows, and the same gradient is required.
    (of_entropy ? p.grad_entropy : p.grad_logprob).assign(3, 0x1p47f);
    const kernel::Problem less = p.View();
    const Expectation fits = Expected(less, Everything(less, DType::kF32), Contract());
    EXPECT_NE(fits[Output::kGradHidden].at(0, 0).expect, Expect::kUnspecified);
    Judged(p, Contract());
  }
}

// Equal logits of 2^121: 257 of them make a sum of e x that fp32 does not hold, 4 do not. It does so
// before a larger logit is seen, too. Fails if a plain entropy must be finite although its sum may not
// be, or need not be where it is.
TEST(DeclaredLimits, ASumOfExThatOverflows) {
  Contract c = CarefulContract();
  c.plain_entropy = true;
  for (const size_t columns : {257, 4}) {
    std::vector<float> logits(columns, 0x1p121f);
    logits.back() *= 2;
    SmallProblem p = RowsOf(logits, 1, Reduction::kNone);
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, DType::kF32), c);
    const bool overflows = columns == 257;
    EXPECT_EQ(expected[Output::kEntropy].at(0, 0).expect,
              overflows ? Expect::kUnspecified : Expect::kVacuous);
    EXPECT_EQ(expected[Output::kGradWeight].at(0, 0).expect == Expect::kUnspecified, overflows);
    EXPECT_EQ(expected[Output::kLogprob].at(0, 0).expect, Expect::kFinite);
  }
}

// -sum p ln p and lse - sum p x, from p that do not add up to 1: each p has the error of lse, or of its
// own quotient. Fails for a bound in which errors that all p have in common cancel, as in sum e t / s.
TEST(DeclaredLimits, ProbabilitiesDoNotAddUp) {
  std::vector<float> far = kUneven;
  for (float& x : far) x += 1000;
  for (const bool plain : {false, true}) {
    for (const Probability probability : {Probability::kRatio, Probability::kExpOfLse}) {
      for (const double error : {64.0, kMostError}) {
        Contract c = CarefulContract();
        c.entropy_of_probabilities = true;
        c.plain_entropy = plain;
        c.probability = probability;
        (probability == Probability::kRatio ? c.division_error : c.log_error_relative) = error;
        const Tightest even = Judged(RowsOf(std::vector<float>(40, 1), 1, Reduction::kNone), c);
        EXPECT_GT(Of(even, Output::kEntropy), plain ? 0.2 : 0.4) << error;
        c.exp_error = error;
        Judged(RowsOf(kUneven, 0.75f, Reduction::kNone), c);
        Judged(RowsOf(far, 1, Reduction::kNone), c);
      }
    }
  }
}

// 2^20 small weights in one chain, rounded up by u at each step, then added to a maximum of exactly 1
// with an error of the smaller operand. Fails for a bound with a constant factor above the others' sum.
TEST(DeclaredLimits, ALongChainBesideAnExactMaximum) {
  constexpr int64_t kV = int64_t{1} << 20;
  constexpr double kU = 0x1p-24;
  std::vector<double> z(kV + kColumnStep, -std::numeric_limits<double>::infinity());
  std::fill_n(z.begin(), kV, -std::log(0x1p46));
  z[0] = 0;
  const std::vector<double> sums(z.size(), 0), lsb(z.size(), 1);
  const Columns columns = {z.data(), sums.data(), nullptr, lsb.data(), 1, 0, kV};
  const Row row = ComputeRow(columns, 1, 0, false);
  Arithmetic a;
  a.u = kU;
  a.exact_max = a.recompute_same_bits = a.ratio = true;
  a.sum_depth = kV - 1;
  const RowBudget budget = BudgetForward(row, columns, a, 1);
  const auto w = static_cast<long double>(std::exp(z[1]));
  long double others = w;
  for (int64_t v = 2; v < kV; ++v) others = (others + w) * (1 + 0x1p-24L);
  const long double s = 1 + static_cast<long double>(kV - 1) * w, computed = 1 + 2 * others;
  const auto error = static_cast<double>((computed - s) / s);
  EXPECT_LE(error, budget.sum_error);
  EXPECT_GT(error, 0.9 * budget.sum_error);
}

}  // namespace
}  // namespace plumbline::oracle
