// SPDX-License-Identifier: Apache-2.0
//
// The formulas of a column as a device's threads have them, compiled for the host, beside the host's
// own in vectors. The two share one text; this needs no device.

#define PLUMBLINE_FORMULAS_OF_DOUBLES
#include "oracle/budget/forward_bound-inl.h"
#include "oracle/budget/gradient_bound-inl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/column_terms.h"
#include "oracle/budget/finish.h"
#include "oracle/budget/row.h"

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kHidden = 16;

// Either side's evaluation may lose 2^-20 of a bound.
MATCHER_P(IsNearly, expected, "") {
  return arg == expected || std::fabs(arg - expected) <= 0x1p-20 * std::fabs(expected);
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  bool Flip() { return random_() % 2 == 0; }
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

 private:
  std::mt19937_64 random_;
};

Contract DrawContract(Draws* draw) {
  Contract c;
  c.accumulate = draw->Flip() ? Accumulate::kFp32 : Accumulate::kTensorCore;
  c.scale = draw->Flip() ? Scale::kBefore : Scale::kAfter;
  c.shift = draw->Flip() ? Shift::kExactMax : Shift::kOther;
  c.exp_gradual = draw->Flip();
  c.plain_entropy = draw->Flip();
  c.recompute_same_bits = draw->Flip();
  c.probability = draw->Flip() ? Probability::kRatio : Probability::kExpOfLse;
  if (draw->Flip()) c.d_logits = kernel::DType::kBf16;
  return c;
}

struct Logits {
  Logits(int64_t vocab, Draws* draw)
      : z(RoundUpTo(vocab), -kInfinity), abs_sum(z.size(), 0), lsb(z.size(), 0x1p-12), count(vocab) {
    const double width = std::exp2(draw->Uniform(-12, 14));
    for (size_t v = 0; v < static_cast<size_t>(vocab); ++v) {
      z[v] = v > 0 && draw->Uniform(0, 1) < 0.1 ? -kInfinity : draw->Uniform(-width, width);
      abs_sum[v] = v % 7 == 3 ? 0 : 2 * width;
    }
  }
  static size_t RoundUpTo(int64_t n) {
    return static_cast<size_t>((n + 7) / kColumnStep * kColumnStep);
  }
  Columns columns() const { return {z.data(), abs_sum.data(), nullptr, lsb.data(), 0x1p-12, 0, count}; }

  std::vector<double> z, abs_sum, lsb;
  int64_t count;
};

// Fails if a word means another thing for doubles than for vectors, or if a formula takes a column's
// numbers from another place.
TEST(FormulasOfDoubles, GiveTheVectorsValuesAndBounds) {
  int64_t compared = 0, vague = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Draws draw(seed);
    const auto vocab = static_cast<int64_t>(draw.Uniform(1, 40));
    const Logits logits(vocab, &draw);
    const Columns columns = logits.columns();
    const Arithmetic a =
        TargetArithmetic(DrawContract(&draw), kernel::DType::kBf16, {1, vocab, kHidden});
    const Row row = ComputeRow(columns, draw.Flip() ? 1 : 0.7, vocab / 2, false);
    ASSERT_EQ(row.row_class, RowClass::kFinite) << seed;
    const RowTerms terms = RowTermsOf(row, columns.hidden_lsb, a);
    const LogitTerms common = LogitTermsOf(a, kHidden);
    const auto load = [&](int64_t v) {
      return cuda::ColumnOf(terms, columns.z[v],
                            cuda::LogitBound(terms, common, columns.abs_sum[v], columns.weight_lsb[v]));
    };

    Weights weights;
    Moments moments;
    for (int64_t v = 0; v < vocab; ++v) {
      cuda::AddWeight(columns.z[v], v == row.argmax, row.max_z, row.logit_scale, &weights);
      const auto s = load(v);
      cuda::AddMoments(s, s.present && v != row.argmax, row.entropy, &moments);
    }
    EXPECT_NEAR(weights.rest, row.rest, 0x1p-45 * row.rest) << seed;
    const auto change = [&](int64_t v) {
      const auto s = load(v);
      return Change{s.t, s.delta, s.growth, s.grown};
    };
    const RowBudget b = BudgetForward(row, columns, a, kHidden);
    const RowBudget of_doubles = BudgetForward(row, moments, change(row.argmax), change(row.label), a);
    EXPECT_THAT(of_doubles.lse, IsNearly(b.lse)) << seed;
    EXPECT_THAT(of_doubles.logprob, IsNearly(b.logprob)) << seed;
    EXPECT_THAT(of_doubles.entropy, IsNearly(b.entropy)) << seed;

    const Upstream upstream = {draw.Flip() ? 0 : draw.Uniform(-2, 2), draw.Uniform(-2, 2), a.u};
    std::vector<double> value(logits.z.size()), bound(value.size());
    const bool overflow =
        BudgetGradient(row, columns, b, a, kHidden, upstream, value.data(), bound.data());
    const GradientTerms gradient = GradientTermsOf(row, b, a, upstream);
    bool any = false;
    for (int64_t v = 0; v < vocab; ++v) {
      const auto d = cuda::DLogitOf(gradient, load(v), v == row.label, v == row.argmax);
      const auto at = static_cast<size_t>(v);
      EXPECT_NEAR(d.value, value[at], 0x1p-40 * std::fabs(value[at])) << seed << " " << v;
      EXPECT_THAT(d.bound, IsNearly(bound[at])) << seed << " " << v;
      any = any || d.overflow;
      vague += std::isfinite(bound[at]) ? 0 : 1;
      ++compared;
    }
    EXPECT_EQ(any, overflow) << seed;
  }
  EXPECT_GT(compared, 20'000);
  EXPECT_LT(vague, compared / 2);
}

// Fails if what a sum must be differs between the two in any of its four kinds.
TEST(FormulasOfDoubles, GiveTheVectorsGradients) {
  const GradientSum sum = {0x1p-149, 0x1p-20, RoundingOf(kernel::DType::kBf16), true};
  const double limit = 0x1p100;
  const std::vector<double> values = {0, 1, -3, 1e38, std::nan(""), 0x1p-140, 5, 7};
  const std::vector<double> errors = {0, 1e-6, 2, 1e38, 1, 0x1p-145, kInfinity, std::nan("")};
  const std::vector<double> ranges = {1, 10, 1, 1e38, 1, 0x1p-130, 10, 0x1p120};
  std::vector<double> bounds = errors;
  std::vector<Expect> expect(values.size());
  FinishGradient({values.data(), bounds.data(), ranges.data(), expect.data(), 8}, limit, sum);
  EXPECT_THAT(
      expect,
      testing::AllOf(testing::Contains(Expect::kFinite), testing::Contains(Expect::kNaN),
                     testing::Contains(Expect::kVacuous), testing::Contains(Expect::kUnspecified)));
  for (size_t j = 0; j < values.size(); ++j) {
    const auto e = cuda::GradientElementOf(sum, values[j], errors[j], ranges[j], limit);
    const Expect expected = std::isnan(values[j]) ? Expect::kNaN
                            : !e.fits             ? Expect::kUnspecified
                            : !e.says             ? Expect::kVacuous
                                                  : Expect::kFinite;
    EXPECT_EQ(expect[j], expected) << j;
    EXPECT_EQ(bounds[j], e.fits && !std::isnan(values[j]) ? e.bound : 0) << j;
  }
}

}  // namespace
}  // namespace plumbline::oracle
