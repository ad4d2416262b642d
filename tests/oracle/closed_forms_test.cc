// SPDX-License-Identifier: Apache-2.0
//
// Problems whose outputs have closed formulas, evaluated in long double. The reference must agree to 15
// digits, whatever its radius claims. H = 1 and hidden = 1, so that the logits are the weights and
// grad_weight is dz.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using Real = long double;

// glibc documents exp and log1p within 1 ulp, and a handful of such operations and roundings stay below
// this. Sums over the vocabulary, in any order, add at most half an ulp a column.
constexpr Real kDigits = 1e-15L;
Real Digits(int64_t columns) { return kDigits + static_cast<Real>(columns) * 0x1p-53L; }

SmallProblem Logits(const std::vector<float>& logits, int64_t label, float g = 0, float k = 0) {
  SmallProblem p;
  p.n = p.h = 1;
  p.v = static_cast<int64_t>(logits.size());
  p.hidden = BitsOf({1});
  p.weight = BitsOf(logits);
  p.labels = {label};
  p.grad_logprob = {g};
  p.grad_entropy = {k};
  return p;
}

Expectation Solve(SmallProblem* p) {
  const kernel::Problem problem = p->View();
  return Expected(problem, Everything(problem, kernel::DType::kF32), CarefulContract());
}

// Expects e within `digits` of `exact`, relative to `scale` where terms of that size cancel.
void ExpectClose(const Element& e, Real exact, Real scale, const std::string& what,
                 Real digits = kDigits) {
  const Real error = std::fabs(static_cast<Real>(e.value) - exact);
  EXPECT_LE(error, digits * std::max(std::fabs(exact), scale)) << what << " " << e.value;
  // The radius is relative to the bound, so e must lie within its radius as well.
  EXPECT_LE(error, e.radius + 0x1p-60L * std::fabs(exact)) << what << " " << e.value;
}

// V equal logits: lse = x + ln V, entropy = ln V = -logprob, dz = g ([v = y] - 1/V); the entropy is
// stationary. Fails if V is miscounted at the edge of a block, if the label's column is taken from
// another block, or if a common offset changes anything but lse.
TEST(ClosedForms, Ties) {
  for (const int64_t v : {1, 2, 3, 7, 8, 64, 65, 1000, 50257}) {
    for (const float x : {0.0f, 1.5f, -30000.0f, 0x1p34f, -0x1p34f}) {
      const int64_t label = v / 2;
      SmallProblem p = Logits(std::vector<float>(static_cast<size_t>(v), x), label, -3, 0);
      const Expectation e = Solve(&p);
      const Real log_v = std::log(static_cast<Real>(v)), share = 1 / static_cast<Real>(v);
      const std::string what = "V " + std::to_string(v) + " x " + std::to_string(x);
      ExpectClose(e[Output::kLse].at(0, 0), static_cast<Real>(x) + log_v, 0, what + " lse");
      ExpectClose(e[Output::kEntropy].at(0, 0), log_v, 0, what + " entropy");
      ExpectClose(e[Output::kLogprob].at(0, 0), -log_v, 0, what + " logprob");
      for (const int64_t c : {int64_t{0}, label, v - 1}) {
        const Real dz = -3 * ((c == label ? 1 : 0) - share);
        ExpectClose(e[Output::kGradWeight].at(c, 0), dz, 0, what + " dz");
      }
      p.grad_logprob = {0};
      p.grad_entropy = {2};
      const Expectation of_k = Solve(&p);
      // p (ln p + H) is a difference of two numbers of size ln V.
      ExpectClose(of_k[Output::kGradWeight].at(label, 0), 0, 2 * share * log_v, what + " dz of k");
    }
  }
}

// Two logits d apart, q = e^-d / (1 + e^-d): logprob = -ln(1 + e^-d) for the larger, entropy = ln(1 +
// e^-d) + d q, dz = g q at the label and -g q beside it, and -k (1 - q) q d and its negative. Fails for
// 1 - p formed by subtraction, for ln s formed as ln of a rounded s, and for a wrong sign in either
// gradient.
TEST(ClosedForms, TwoTokens) {
  for (const float gap : {0x1p-20f, 0x1p-10f, 0.5f, 1.0f, 10.0f, 36.0f, 37.0f, 100.0f, 700.0f}) {
    const Real d = static_cast<Real>(gap), e_d = std::exp(-d), q = e_d / (1 + e_d);
    const Real entropy = std::log1p(e_d) + d * q;
    for (const int64_t label : {0, 1}) {
      SmallProblem p = Logits({gap, 0}, label, 1, 0);
      const Expectation by_g = Solve(&p);
      p.grad_logprob = {0};
      p.grad_entropy = {1};
      const Expectation by_k = Solve(&p);
      const std::string what = "gap " + std::to_string(gap) + " label " + std::to_string(label);
      ExpectClose(by_g[Output::kLse].at(0, 0), d + std::log1p(e_d), 0, what + " lse");
      ExpectClose(by_g[Output::kLogprob].at(0, 0), -std::log1p(e_d) - (label == 0 ? 0 : d), 0,
                  what + " logprob");
      ExpectClose(by_g[Output::kEntropy].at(0, 0), entropy, 0, what + " entropy");
      const Real slope = label == 0 ? q : -(1 - q);
      ExpectClose(by_g[Output::kGradWeight].at(0, 0), slope, 0, what + " dz_0 by g");
      ExpectClose(by_g[Output::kGradWeight].at(1, 0), -slope, 0, what + " dz_1 by g");
      // ln p + H cancels: d q of size 2^-21 is what is left of ln 2.
      const Real scale = entropy * q;
      ExpectClose(by_k[Output::kGradWeight].at(0, 0), -(1 - q) * q * d, scale, what + " dz_0 by k");
      ExpectClose(by_k[Output::kGradWeight].at(1, 0), (1 - q) * q * d, scale, what + " dz_1 by k");
    }
  }
}

// Logits -a v: s = (1 - r^V) / (1 - r) with r = e^-a, sum e^-t t = a r (1 - V r^(V-1) + (V-1) r^V) / (1
// - r)^2. Fails if a column in the middle is lost or counted twice.
TEST(ClosedForms, Geometric) {
  for (const int64_t v : {2, 9, 65, 257}) {
    for (const float step : {0.125f, 1.0f, 3.0f}) {
      std::vector<float> logits;
      for (int64_t c = 0; c < v; ++c) logits.push_back(-step * static_cast<float>(c));
      const Real a = static_cast<Real>(step), n = static_cast<Real>(v), r = std::exp(-a);
      const Real s = -std::expm1(-a * n) / -std::expm1(-a);
      const Real one_less = -std::expm1(-a);
      const Real q =
          a * r * (1 - n * std::exp(-a * (n - 1)) + (n - 1) * std::exp(-a * n)) / (one_less * one_less);
      const int64_t label = v - 1;
      SmallProblem p = Logits(logits, label, 1, 0);
      const Expectation e = Solve(&p);
      const std::string what = "V " + std::to_string(v) + " step " + std::to_string(step);
      ExpectClose(e[Output::kLse].at(0, 0), std::log(s), 0, what + " lse");
      ExpectClose(e[Output::kLogprob].at(0, 0), -a * (n - 1) - std::log(s), 0, what + " logprob");
      ExpectClose(e[Output::kEntropy].at(0, 0), std::log(s) + q / s, 0, what + " entropy");
      ExpectClose(e[Output::kGradWeight].at(0, 0), -1 / s, 0, what + " dz");
    }
  }
}

// Blocks of a and b columns at 0 and -d, shuffled together: s = a + b e^-d, entropy = ln s + b d
// e^-d/s. In the entropy's gradient ln p + H is d b e^-d / s in one block and that less d in the other.
// Fails if a column is summed with the other block's weight.
TEST(ClosedForms, TwoBlocks) {
  for (const auto& [a, b] : {std::pair{1, 999}, std::pair{100, 29}, std::pair{3, 50000}}) {
    for (const float gap : {1.0f, 8.0f, 30.0f}) {
      std::vector<float> logits;
      for (int c = 0; c < a + b; ++c) {
        const bool high = (c + 1) * a / (a + b) != c * a / (a + b);
        logits.push_back(high ? 0 : -gap);
      }
      const auto low = std::find(logits.begin(), logits.end(), -gap) - logits.begin();
      const auto high = std::find(logits.begin(), logits.end(), 0.0f) - logits.begin();
      SmallProblem p = Logits(logits, low, 0, 1);
      const Expectation e = Solve(&p);
      const Real d = static_cast<Real>(gap), tail = static_cast<Real>(b) * std::exp(-d);
      const Real s = static_cast<Real>(a) + tail, mean = d * tail / s;
      const Real log_s = std::log1p(static_cast<Real>(a - 1) + tail), digits = Digits(a + b);
      const std::string what = std::to_string(a) + " and " + std::to_string(b);
      ExpectClose(e[Output::kLse].at(0, 0), log_s, 0, what + " lse", digits);
      ExpectClose(e[Output::kLogprob].at(0, 0), -d - log_s, 0, what + " logprob", digits);
      ExpectClose(e[Output::kEntropy].at(0, 0), log_s + mean, 0, what + " entropy", digits);
      const Real scale = (log_s + mean) / s;
      ExpectClose(e[Output::kGradWeight].at(high, 0), -mean / s, scale, what + " high", digits);
      ExpectClose(e[Output::kGradWeight].at(low, 0), std::exp(-d) / s * (d - mean),
                  scale * std::exp(-d), what + " low", digits);
    }
  }
}

// Dividing by T shrinks gaps by T and dz by T once more. Fails if T multiplies, or is left out of one
// of them.
TEST(ClosedForms, Temperature) {
  for (const float t : {0.25f, 8.0f, 0x1p20f}) {
    SmallProblem p = Logits({3, 1}, 0, 1, 0);
    p.temperature = {t};
    const Expectation e = Solve(&p);
    const Real d = 2 / static_cast<Real>(t), e_d = std::exp(-d), q = e_d / (1 + e_d);
    ExpectClose(e[Output::kLse].at(0, 0), 3 / static_cast<Real>(t) + std::log1p(e_d), 0, "lse");
    ExpectClose(e[Output::kLogprob].at(0, 0), -std::log1p(e_d), 0, "logprob");
    ExpectClose(e[Output::kGradWeight].at(0, 0), q / static_cast<Real>(t), 0, "dz");
  }
}

// Three rows of ties, one of them ignored: loss = 2 ln V or ln V, each dz times -gamma or -gamma / 2.
// Fails if the ignored row is counted, if the mean divides by N, if a reduction keeps the sign of
// logprob, or if the entropy is reduced.
TEST(ClosedForms, Reductions) {
  for (const auto reduction : {kernel::Reduction::kSum, kernel::Reduction::kMean}) {
    SmallProblem p;
    p.n = 3, p.v = 4, p.h = 1;
    p.hidden = BitsOf({1, 1, 2});
    p.weight = BitsOf({5, 5, 5, 5});
    p.labels = {1, -100, 2};
    p.reduction = reduction;
    p.grad_logprob = {3};
    const Expectation e = Solve(&p);
    const Real log_v = std::log(4.0L), n = reduction == kernel::Reduction::kSum ? 1 : 2;
    ExpectClose(e[Output::kLoss].at(0, 0), 2 * log_v / n, 0, "loss");
    ExpectClose(e[Output::kEntropy].at(2, 0), log_v, 0, "entropy");
    EXPECT_EQ(e[Output::kEntropy].at(1, 0).value, 0);
    EXPECT_EQ(e[Output::kGradHidden].at(1, 0).expect, Expect::kPlusZero);
    ExpectClose(e[Output::kGradWeight].at(0, 0), 3 / n * (0.25L + 2 * 0.25L), 0, "dW of no label");
    ExpectClose(e[Output::kGradWeight].at(1, 0), 3 / n * (-0.75L + 2 * 0.25L), 0, "dW of a label");
    ExpectClose(e[Output::kGradWeight].at(2, 0), 3 / n * (0.25L - 2 * 0.75L), 0, "dW of a label");
  }
}

// Fails if H = 0 gives logits other than +0, or gradients with elements.
TEST(ClosedForms, NoHiddenDimension) {
  SmallProblem p;
  p.n = 2, p.v = 5, p.h = 0;
  p.labels = {0, 4};
  p.grad_logprob = {1, 1};
  const Expectation e = Solve(&p);
  for (int64_t i = 0; i < 2; ++i) {
    ExpectClose(e[Output::kLse].at(i, 0), std::log(5.0L), 0, "lse");
    ExpectClose(e[Output::kLogprob].at(i, 0), -std::log(5.0L), 0, "logprob");
    ExpectClose(e[Output::kEntropy].at(i, 0), std::log(5.0L), 0, "entropy");
  }
  EXPECT_TRUE(e[Output::kGradWeight].elements.empty());
}

}  // namespace
}  // namespace plumbline::oracle
