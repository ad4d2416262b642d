// SPDX-License-Identifier: Apache-2.0
//
// The reference against the arbiter where formulas lose their digits. A straightforward evaluation in
// fp64 gets each of these problems wrong. Fails if a value is further from the arbiter's than its
// radius, or if the two disagree about what is zero, NaN or infinite.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::Reduction;

constexpr float kInf = std::numeric_limits<float>::infinity();

// One row, H = 1 and hidden = 1, both gradients asked for.
SmallProblem Logits(const std::vector<float>& logits, int64_t label) {
  SmallProblem p;
  p.n = p.h = 1;
  p.v = static_cast<int64_t>(logits.size());
  p.hidden = BitsOf({1});
  p.weight = BitsOf(logits);
  p.labels = {label};
  p.grad_logprob = {1};
  p.grad_entropy = {-0.5f};
  return p;
}

SmallProblem Rows(const std::vector<float>& hidden, const std::vector<float>& weight, int64_t h,
                  const std::vector<int64_t>& labels) {
  SmallProblem p;
  p.h = h;
  p.n = static_cast<int64_t>(hidden.size()) / h;
  p.v = static_cast<int64_t>(weight.size()) / h;
  p.hidden = BitsOf(hidden);
  p.weight = BitsOf(weight);
  p.labels = labels;
  p.grad_logprob.assign(static_cast<size_t>(p.n), 1);
  p.grad_entropy.assign(static_cast<size_t>(p.n), -0.5f);
  return p;
}

void ExpectAgreement(SmallProblem* p, const std::string& what, int64_t unspecified = 0) {
  Agreement agreement;
  Compare(p->View(), CarefulContract(), 1, &agreement);
  EXPECT_EQ(agreement.first, "") << what;
  EXPECT_EQ(agreement.unspecified, unspecified) << what;
}

// 1 - p_y = 2^-k. Fails for 1 - p_y formed by subtraction, for ln s as ln of a rounded 1 + rest, and
// for an entropy that is not a sum of positive terms. Beyond k = 53 all of them are 0 in a naive fp64.
TEST(WorstCases, NearOneHot) {
  for (int k = 1; k <= 60; ++k) {
    const auto gap = static_cast<float>(k * std::log(2.0));
    for (const int64_t label : {0, 1}) {
      SmallProblem two = Logits({gap, 0}, label);
      ExpectAgreement(&two, "2^-" + std::to_string(k));
      SmallProblem five = Logits({-1, -1 - gap, -1 - gap, -40 - gap, -2 - gap}, label);
      ExpectAgreement(&five, "2^-" + std::to_string(k) + ", five columns");
    }
  }
}

// The label's logit is the least: logprob is -t_y, and the other outputs do not depend on it.
TEST(WorstCases, LabelFarBelow) {
  for (const float gap : {100.0f, 745.0f, 1e4f, 0x1p30f, 0x1p100f}) {
    SmallProblem p = Logits({0.5f, -gap, 0.25f}, 1);
    ExpectAgreement(&p, std::to_string(gap));
  }
}

// lse is near 0 though the logits are not: V e^-x with x about ln V.
TEST(WorstCases, LseNearZero) {
  for (const int64_t v : {2, 17, 1000}) {
    const auto x = static_cast<float>(-std::log(static_cast<double>(v)));
    for (const float near : {x, std::nextafter(x, 0.0f), std::nextafter(x, -100.0f)}) {
      SmallProblem p = Logits(std::vector<float>(static_cast<size_t>(v), near), v / 2);
      ExpectAgreement(&p, "V " + std::to_string(v));
    }
  }
}

// Gaps near those at which e^-t becomes subnormal and then 0 in fp64. Fails for a cut-off that the
// radius does not cover, or for 0 times infinity.
TEST(WorstCases, ExponentialUnderflow) {
  for (const float gap : {707.0f, 708.0f, 708.5f, 709.0f, 744.0f, 745.0f, 745.25f, 746.0f, 747.0f}) {
    for (const int64_t label : {0, 1, 2}) {
      SmallProblem p = Logits({0, -gap, -1}, label);
      ExpectAgreement(&p, std::to_string(gap));
    }
    SmallProblem alone = Logits({gap, 0}, 0);
    ExpectAgreement(&alone, std::to_string(gap) + " alone");
  }
}

// Every logit has a common offset of 2^34 or 2^120. Only lse may depend on it.
TEST(WorstCases, HugeOffset) {
  for (const float half : {0x1p17f, -0x1p17f, 0x1p60f}) {
    SmallProblem p = Rows({std::fabs(half), 1}, {half, 0.5f, half, -1.25f, half, 2, half, 0}, 2, {3});
    ExpectAgreement(&p, std::to_string(half));
  }
}

// S = 2^50 |z|: the logits are what is left after large products cancel.
TEST(WorstCases, CancellingDotProducts) {
  std::mt19937_64 rng(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<float> hidden, weight;
    const auto unit = [&rng] { return static_cast<float>(rng() >> 40) * 0x1p-24f - 0.5f; };
    for (int i = 0; i < 2; ++i) {
      const float large = std::ldexp(1 + unit(), 25);
      hidden.insert(hidden.end(), {large, -large, unit()});
    }
    for (int c = 0; c < 4; ++c) {
      const float large = std::ldexp(1 + unit(), 25);
      weight.insert(weight.end(), {large, large, unit()});
    }
    SmallProblem p = Rows(hidden, weight, 3, {0, 3});
    ExpectAgreement(&p, "trial " + std::to_string(trial));
  }
}

// Columns of -inf: weight 0, dz 0, and NaN where 0 is multiplied by the infinite weight. At the label dz
// is g / T, and its product with the infinite weight is infinite.
TEST(WorstCases, InfiniteLogits) {
  for (const int64_t label : {0, 1, 2}) {
    SmallProblem one = Logits({1, -kInf, 2}, label);
    ExpectAgreement(&one, "H 1");
    SmallProblem two = Rows({1, 2, 0.5f, 3}, {1, 1, -kInf, 1, 1, -2}, 2, {label, 0});
    ExpectAgreement(&two, "H 2");
  }
  SmallProblem all = Logits({-kInf, -kInf}, 0);
  ExpectAgreement(&all, "all -inf", 2);  // 2 elements of grad_weight
  SmallProblem plus = Logits({kInf, 1}, 0);
  ExpectAgreement(&plus, "+inf", 2);
}

// Subnormal operands and products far below the least of fp32.
TEST(WorstCases, SubnormalInputs) {
  const float least = std::numeric_limits<float>::denorm_min();
  SmallProblem tiny = Rows({least, 3 * least}, {least, 1, 5 * least, -2}, 2, {0});
  ExpectAgreement(&tiny, "tiny products");
  SmallProblem scaled = Rows({7 * least, 1}, {0x1p120f, 0, -0x1p120f, 1, 0x1p110f, 2}, 2, {2});
  ExpectAgreement(&scaled, "subnormal times huge");
}

// Extreme T and upstream gradients, and the mean over a single counted row.
TEST(WorstCases, ScalesAtTheEnds) {
  for (const float t : {0x1p-100f, 0x1.fp-60f, 0x1p100f}) {
    SmallProblem p = Logits({3 * t, t, -2 * t}, 1);
    p.temperature = {t};
    ExpectAgreement(&p, "T " + std::to_string(std::ilogb(t)));
  }
  for (const float g : {0x1p-60f, 0x1p60f, -0x1p60f}) {
    for (const float k : {0x1p-60f, 0.0f, 0x1p60f}) {
      SmallProblem p = Logits({3, 1, -2}, 1);
      p.grad_logprob = {g};
      p.grad_entropy = {k};
      ExpectAgreement(&p, "g " + std::to_string(g) + " k " + std::to_string(k));
    }
  }
  SmallProblem mean = Rows({1, 2, 3, 4}, {0.5f, -1, 2}, 1, {-100, 2, -100, -100});
  mean.reduction = Reduction::kMean;
  mean.grad_logprob = {3};
  ExpectAgreement(&mean, "mean over one row");
}

// Longer sums make the reference's error a larger share of its radius. Fails if, for some output, a
// radius that is 2^12 times smaller, or 0, would not be noticed.
TEST(WorstCases, RadiusIsNeededForEveryOutput) {
  std::mt19937_64 rng(11);
  const auto value = [&rng] { return 0.5f + static_cast<float>(rng() >> 40) * 0x1p-24f; };
  Agreement agreement;
  struct Shape {
    Reduction reduction;
    int64_t n, v, h;
  };
  std::vector<Shape> shapes = {{Reduction::kNone, 200, 40, 12}, {Reduction::kNone, 200, 3, 4}};
  shapes.insert(shapes.end(), 50, {Reduction::kMean, 2, 3, 4});
  for (const auto& [reduction, n, v, h] : shapes) {
    SmallProblem p;
    p.n = n, p.v = v, p.h = h;
    std::vector<float> hidden, weight;
    for (int64_t e = 0; e < p.n * p.h; ++e) hidden.push_back(value());
    for (int64_t e = 0; e < p.v * p.h; ++e) weight.push_back(value());
    p.hidden = BitsOf(hidden);
    p.weight = BitsOf(weight);
    p.reduction = reduction;
    for (int64_t i = 0; i < p.n; ++i) p.labels.push_back(i % p.v);
    p.grad_logprob.assign(reduction == Reduction::kNone ? static_cast<size_t>(p.n) : 1, 0.7f);
    p.grad_entropy.assign(static_cast<size_t>(p.n), 0.3f);
    Compare(p.View(), CarefulContract(), 7, &agreement);
  }
  EXPECT_EQ(agreement.first, "");
  for (const Output output : kOutputs) {
    EXPECT_GT(agreement.Attained(output), 0x1p-12) << Name(output);
    EXPECT_LT(agreement.radius[static_cast<size_t>(output)], 0x1p-20) << Name(output);
  }
}

}  // namespace
}  // namespace plumbline::oracle
