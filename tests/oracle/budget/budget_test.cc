// SPDX-License-Identifier: Apache-2.0
//
// The budget against perturbed computations in long double, which share none of its formulas. It must
// hold for all of them. Some must come close, or the test would prove nothing.

#include "oracle/budget/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/row.h"
#include "tests/oracle/agreement.h"

namespace plumbline::oracle {
namespace {

using Real = long double;

double Uniform(std::mt19937_64& rng) { return static_cast<double>(rng() >> 11) * 0x1p-53; }

// A row whose logits come from H = 1 and hidden = 1, so that they are the weights.
struct LogitRow {
  LogitRow(const std::vector<double>& logits, int64_t label)
      : count(static_cast<int64_t>(logits.size())), z(logits) {
    z.resize((logits.size() / kColumnStep + 1) * kColumnStep, -std::numeric_limits<double>::infinity());
    abs_sum.assign(z.size(), 0);
    for (size_t v = 0; v < logits.size(); ++v) abs_sum[v] = std::fabs(z[v]);
    lsb.assign(z.size(), 0x1p-1000);
    row = ComputeRow(columns(), 1.0, label, false);
  }
  Columns columns() const { return {z.data(), abs_sum.data(), nullptr, lsb.data(), 1.0, 0, count}; }
  RowBudget Forward(const Arithmetic& a) const { return BudgetForward(row, columns(), a, 1); }

  int64_t count;
  std::vector<double> z, abs_sum, lsb;
  Row row;
};

struct DLogits {
  DLogits(const LogitRow& r, const RowBudget& budget, const Arithmetic& a, const Upstream& up)
      : value(r.z.size()), bound(r.z.size()) {
    BudgetGradient(r.row, r.columns(), budget, a, 1, up, value.data(), bound.data());
  }
  std::vector<double> value, bound;
};

struct Softmax {
  Real lse, entropy;
  std::vector<Real> log_p;
};

Softmax Exact(const std::vector<Real>& x) {
  const Real m = *std::max_element(x.begin(), x.end());
  Real s = 0;
  for (Real v : x) s += std::exp(v - m);
  Softmax out{m + std::log(s), 0, {}};
  for (Real v : x) {
    const Real log_p = (v - m) - std::log(s);
    out.log_p.push_back(log_p);
    out.entropy -= std::exp(log_p) * log_p;
  }
  return out;
}

// Logits with a leader, ties, and a spread that varies from case to case.
std::vector<double> RandomLogits(std::mt19937_64& rng) {
  const size_t n = 1 + rng() % 40;
  const double spread = std::ldexp(1.0, static_cast<int>(rng() % 8) - 3);
  std::vector<double> x(n);
  for (double& v : x) v = spread * (2 * Uniform(rng) - 1);
  if (rng() % 2 == 0) x[rng() % n] += spread * 4;
  if (rng() % 3 == 0 && n > 1) x[0] = x[n - 1];
  return x;
}

// Arithmetic in which only the logits err, each by up to epsilon times its own size.
Arithmetic OnlyLogits(double epsilon) {
  Arithmetic a;
  a.dot_logit = epsilon;
  a.exact_max = true;
  a.recompute_same_bits = true;
  a.ratio = true;
  return a;
}

// Fails for max(delta) in place of L or of P (too loose), and for an entropy without its second-order
// term or without the factor e^L (violated at large delta).
TEST(Budget, LogitErrorsPropagateRigorouslyAndTightly) {
  std::mt19937_64 rng(1);
  double tight_lse = 0, tight_logprob = 0, tight_entropy = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const std::vector<double> logits = RandomLogits(rng);
    const auto label = static_cast<int64_t>(rng() % logits.size());
    const double epsilon = std::ldexp(1.0, -static_cast<int>(rng() % 24));
    const LogitRow row(logits, label);
    const RowBudget budget = row.Forward(OnlyLogits(epsilon));
    // The error of evaluating the budget's row in fp64: at most 40 additions and 20 other roundings.
    const double evaluation = 64 * 0x1p-53 * (4 + std::fabs(row.row.lse) + std::fabs(row.row.logprob));

    std::vector<Real> x(logits.begin(), logits.end()), moved = x;
    const Softmax before = Exact(x);
    const auto y = static_cast<size_t>(label);
    const int corner = static_cast<int>(rng() % 4);
    for (size_t v = 0; v < x.size(); ++v) {
      const Real delta = epsilon * std::fabs(x[v]);
      bool up = rng() % 2 == 0;
      if (corner == 1) up = true;
      if (corner == 2) up = v != y;                                // the extreme for logprob
      if (corner == 3) up = before.log_p[v] + before.entropy < 0;  // the extreme for entropy
      moved[v] += up ? delta : -delta;
    }
    const Softmax after = Exact(moved);
    const auto check = [&](Real error, double bound, double* tight, const char* what) {
      const double e = static_cast<double>(std::fabs(error));
      ASSERT_LE(e, bound + evaluation) << what << " trial " << trial << " corner " << corner;
      if (bound > 1e-12) *tight = std::max(*tight, e / bound);
    };
    check(after.lse - before.lse, budget.lse_change, &tight_lse, "lse");
    check(after.log_p[y] - before.log_p[y], budget.logprob, &tight_logprob, "logprob");
    check(after.entropy - before.entropy, budget.entropy, &tight_entropy, "entropy");
  }
  EXPECT_GT(tight_lse, 0.99);
  EXPECT_GT(tight_logprob, 0.99);
  EXPECT_GT(tight_entropy, 0.99);
}

// A machine like fp32: every operation may err by u relative, in a direction that the generator picks.
class Machine {
 public:
  Machine(uint64_t seed, int bias) : rng_(seed), bias_(bias) {}
  Real operator()(Real exact, double units = 1) {
    const double sign = bias_ != 0 ? bias_ : (rng_() % 2 == 0 ? 1 : -1);
    return exact * (1 + static_cast<Real>(sign * units * 0x1p-24));
  }
  // A rounded sum also errs by no more than its smaller operand (round to nearest, or truncation).
  Real Add(Real a, Real b) {
    const Real exact = a + b, limit = std::min(std::fabs(a), std::fabs(b));
    return exact + std::clamp((*this)(exact)-exact, -limit, limit);
  }

 private:
  std::mt19937_64 rng_;
  int bias_;
};

// The machine's own arithmetic, long double, makes at most 16 roundings of numbers near 1.
constexpr double kMachine = 16 * 0x1p-64;

struct Computed {
  Real lse, logprob, entropy;
  std::vector<Real> dx;
};

// The online softmax, a column at a time, and the gradient. The machine rounds every step.
Computed Online(const std::vector<double>& x, size_t y, double g, double k, Machine& fl) {
  Real m = x[0], s = 0, q = 0;
  bool first = true;
  for (double v : x) {
    if (first || v > m) {
      const Real delta = first ? 0 : fl(v - m), f = first ? 0 : fl(std::exp(-delta), 2);
      q = first ? 0 : fl.Add(fl(f * q), fl(fl(f * delta) * s));
      s = first ? 0 : fl(f * s);
      m = v;
      first = false;
    }
    const Real t = fl(m - v), e = t == 0 ? 1 : fl(std::exp(-t), 2);
    s = fl.Add(s, e);
    q = fl.Add(q, fl(e * t));
  }
  const Real log_s = s == 1 ? 0 : fl(std::log(s), 1.1);
  Computed out;
  out.lse = fl.Add(m, log_s);
  out.logprob = -fl.Add(fl(m - x[y]), log_s);
  out.entropy = fl.Add(log_s, fl(q / s));
  for (size_t v = 0; v < x.size(); ++v) {
    const Real t = fl(m - x[v]), e = t == 0 ? 1 : fl(std::exp(-t), 2);
    const Real p = fl(e / s), log_p = -fl.Add(t, log_s);
    const Real slope = fl.Add(v == y ? 1 : 0, -p);
    out.dx.push_back(fl.Add(fl(g * slope), -fl(fl(k * p) * fl.Add(log_p, out.entropy))));
  }
  return out;
}

Contract OnlineContract() {
  Contract c = CarefulContract();
  c.scale_roundings = 0;
  c.tile = 1;
  c.tile_depth = 0;
  return c;
}

// Fails for a bound without rho, gamma or a log term, for a gradient's bound without the entropy's
// error or the rounding of 1 - p, and for u where 2u is needed.
TEST(Budget, EveryRoundingIsPaidFor) {
  std::mt19937_64 rng(2);
  double tight_logprob = 0, tight_entropy = 0, tight_dx = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<double> logits = RandomLogits(rng);
    for (double& v : logits) v = static_cast<double>(static_cast<float>(v));
    if (rng() % 4 == 0) std::sort(logits.begin(), logits.end());  // a rescale at every step
    const size_t y = rng() % logits.size();
    const double g = rng() % 3 == 0 ? 0 : 2 * Uniform(rng) - 1,
                 k = rng() % 3 == 0 ? 0 : 2 * Uniform(rng) - 1;
    const LogitRow row(logits, static_cast<int64_t>(y));
    const Shape shape = {1, row.count, 1};
    const Arithmetic a = TargetArithmetic(OnlineContract(), kernel::DType::kBf16, shape);
    const RowBudget budget = row.Forward(a);
    const DLogits dz(row, budget, a, {g, k, 0});
    const double ratio = RadiusOver(a, shape).forward;
    Machine machine(rng(), static_cast<int>(rng() % 3) - 1);
    const Computed c = Online(logits, y, g, k, machine);
    const auto check = [&](Real got, double value, double bound, double* tight, const char* what) {
      const double e = std::fabs(static_cast<double>(got - value));
      ASSERT_LE(e, bound * (1 + ratio) + kMachine)
          << what << " trial " << trial << " V " << logits.size();
      if (bound > 1e-12) *tight = std::max(*tight, e / bound);
    };
    double unused = 0;
    check(c.lse, row.row.lse, budget.lse, &unused, "lse");
    check(c.logprob, row.row.logprob, budget.logprob, &tight_logprob, "logprob");
    check(c.entropy, row.row.entropy, budget.entropy, &tight_entropy, "entropy");
    for (size_t v = 0; v < logits.size(); ++v) {
      check(c.dx[v], dz.value[v], dz.bound[v], &tight_dx, "dx");
    }
  }
  EXPECT_GT(tight_logprob, 0.5);
  EXPECT_GT(tight_entropy, 0.4);
  EXPECT_GT(tight_dx, 0.25);
}

// Fails for an A(D) without the truncation's factor two, for a block count without the last short
// block, and for a certificate that is granted to products below the least subnormal.
TEST(Arithmetic, DotProductConstants) {
  Contract c;
  c.accumulate = Accumulate::kFp32;
  const auto dot = [&](int64_t h, kernel::DType dtype) {
    return TargetArithmetic(c, dtype, {1, 1, h}).dot_logit;
  };
  EXPECT_EQ(dot(1, kernel::DType::kBf16), 0);  // one exact product
  EXPECT_EQ(dot(1, kernel::DType::kF32), Gamma(1, 0x1p-24));
  EXPECT_EQ(dot(65, kernel::DType::kF16), Gamma(64, 0x1p-24));
  c.accumulate = Accumulate::kFp32Truncated;
  EXPECT_EQ(dot(65, kernel::DType::kF16), Gamma(128, 0x1p-24));
  c.accumulate = Accumulate::kTensorCore;
  EXPECT_EQ(dot(32, kernel::DType::kBf16), Gamma(2 * (17 * 0.5 + 2), 0x1p-24));  // 10.5 a block
  EXPECT_EQ(dot(33, kernel::DType::kBf16), Gamma(2 * 10.5 + 2 * 0.5 + 2, 0x1p-24));
  c.split = 3;
  EXPECT_EQ(dot(32, kernel::DType::kBf16), Gamma(21 + 5, 0x1p-24));
}

// Fails if a stretch of grad_hidden does not begin anew, if adding stretches costs nothing, or if
// another product has them.
TEST(Arithmetic, Stretches) {
  Contract c;
  c.accumulate = Accumulate::kTensorCore;
  const Shape shape = {9600, 151936, 9600};
  const auto units = [&] {
    const double gamma = TargetArithmetic(c, kernel::DType::kBf16, shape).dot_grad_hidden;
    return gamma / (1 + gamma) * 0x1p24;
  };
  EXPECT_NEAR(units(), 9496 * 10.5, 1e-6);
  const Arithmetic whole = TargetArithmetic(c, kernel::DType::kBf16, shape);
  c.grad_hidden_stretch = 9600;
  EXPECT_NEAR(units(), 600 * 10.5 + 15 * 2.5, 1e-6);
  EXPECT_EQ(TargetArithmetic(c, kernel::DType::kBf16, shape).dot_logit, whole.dot_logit);
  EXPECT_EQ(TargetArithmetic(c, kernel::DType::kBf16, shape).dot_grad_weight, whole.dot_grad_weight);
  c.accumulate = Accumulate::kFp32;
  EXPECT_NEAR(units(), 9599 + 15, 1e-6);
  c.accumulate = Accumulate::kFp32Truncated;
  EXPECT_NEAR(units(), 2 * (9599 + 15), 1e-6);
  for (const int64_t stretch : {int64_t{151936}, INT64_MAX}) {
    c.grad_hidden_stretch = stretch;
    EXPECT_NEAR(units(), 2 * 151935.0, 1e-6);
  }
  c.grad_hidden_stretch = 768;
  c.grad_hidden_stretches = 16;
  EXPECT_NEAR(units(), 2 * (9983 + 15), 1e-6);
}

// Fails if a stretch is no multiple of the columns that are declared, is longer than so few need, or is
// longer than the vocabulary.
TEST(Arithmetic, ColumnsOfAStretch) {
  Contract c;
  EXPECT_EQ(c.StretchOf(151936), 151936);
  c.grad_hidden_stretches = 16;
  EXPECT_EQ(c.StretchOf(151936), 151936);  // of no width
  c.grad_hidden_stretch = 768;
  EXPECT_EQ(c.StretchOf(0), 0);
  EXPECT_EQ(c.StretchOf(700), 700);
  EXPECT_EQ(c.StretchOf(16 * 768), 768);
  EXPECT_EQ(c.StretchOf(16 * 768 + 1), 2 * 768);
  EXPECT_EQ(c.StretchOf(151936), 13 * 768);
  c.grad_hidden_stretches = 1;
  EXPECT_EQ(c.StretchOf(151936), 151936);
  EXPECT_EQ(c.StretchOf(INT64_MAX), INT64_MAX);
}

// Fails if kept exponents cost nothing, or cost problems that do not keep them.
TEST(Arithmetic, KeptExponents) {
  Contract c;
  c.probability = Probability::kRatio;
  const Shape shape = {1, 5, 1};
  EXPECT_EQ(TargetArithmetic(c, kernel::DType::kBf16, shape).kept_argument, 0);
  c.kept_argument = 0x1p-11;
  const Arithmetic ratio = TargetArithmetic(c, kernel::DType::kBf16, shape);
  EXPECT_NEAR(ratio.kept_argument, 0x1p-11, 0x1p-20);
  EXPECT_GE(ratio.kept_sum, 0x1p-24);
  // exp(x - lse) scales the maximum of the tile and the distance from it apart.
  c.probability = Probability::kExpOfLse;
  c.scale = Scale::kAfter;
  c.scale_roundings = 4096;
  EXPECT_NEAR(TargetArithmetic(c, kernel::DType::kBf16, shape).kept_argument, 0x1p-11 + 0x1p-12,
              0x1p-20);
  c.scale = Scale::kBefore;
  EXPECT_EQ(TargetArithmetic(c, kernel::DType::kBf16, shape).kept_argument, ratio.kept_argument);
  for (const kernel::DType dtype : {kernel::DType::kF16, kernel::DType::kF32}) {
    EXPECT_EQ(TargetArithmetic(c, dtype, shape).kept_argument, 0);
    EXPECT_EQ(TargetArithmetic(c, dtype, shape).kept_underflow, 0);
  }
}

// Fails if the bound includes roundings of 1/T where there are none, or omits them where there are
// some.
TEST(Arithmetic, ATemperatureThatIsAPowerOfTwo) {
  Contract c;
  c.scale = Scale::kAfter;
  c.scale_roundings = 1;
  c.argument_roundings = 1;
  const Shape shape = {1, 5, 1};
  const ArithmeticByTemperature claims_nothing(c, kernel::DType::kBf16, shape);
  EXPECT_EQ(claims_nothing.At(1).argument_roundings, Gamma(2, 0x1p-24));
  c.scale_exact_powers = true;
  const ArithmeticByTemperature claims(c, kernel::DType::kBf16, shape);
  EXPECT_EQ(claims.At(1).argument_roundings, Gamma(1, 0x1p-24));
  EXPECT_EQ(claims.At(0.125).scale_roundings, 0);
  EXPECT_EQ(claims.At(0.7).argument_roundings, Gamma(2, 0x1p-24));
  EXPECT_EQ(claims.At(3).scale_roundings, Gamma(1, 0x1p-24));
}

// Fails for a host contract whose summation depth or number of rescales ignores tiles or splits.
TEST(Arithmetic, SummationTree) {
  Contract c;
  c.tile = 64;
  c.tile_depth = 7;
  c.splits = 8;
  const auto at = [&](int64_t v) { return TargetArithmetic(c, kernel::DType::kBf16, {1, v, 1}); };
  EXPECT_EQ(at(64).rescales, 0);
  EXPECT_EQ(at(64).sum_depth, 7);
  EXPECT_EQ(at(65).rescales, 1);       // two tiles, two splits
  EXPECT_EQ(at(512).rescales, 7);      // eight splits of one tile
  EXPECT_EQ(at(513).rescales, 1 + 4);  // nine tiles, two a split, five splits
  EXPECT_EQ(at(4096).sum_depth, 7 + 7 + 7);
  c.rescales = 1;
  EXPECT_EQ(at(4096).rescales, 1);
  EXPECT_EQ(at(4096).sum_depth, 7 + 7 + 7);  // terms are added as often as before
}

// Two logits are 1024 nats apart, but fp32 cannot tell them apart. p underflows, e^delta overflows, and
// their product is 1. Fails for a budget that takes p for zero (found by a campaign).
TEST(Budget, AnUnderflownProbabilityMayStillBeLarge) {
  const LogitRow row({0x1p34, 0x1p34 + 1024}, 0);
  const Arithmetic a = OnlyLogits(0x1p-24);
  const RowBudget budget = row.Forward(a);
  const DLogits dz(row, budget, a, {1, 0, 0});
  EXPECT_GE(budget.lse, std::log(2.0));  // the two logits may be a tie
  EXPECT_GE(budget.entropy, std::log(2.0));
  EXPECT_GE(budget.logprob, 1024 - std::log(2.0));
  EXPECT_GE(dz.bound[0], 0.5);
  EXPECT_GE(dz.bound[1], 0.5);
}

// Fails if exact dot products are charged an error, or if the certificate is granted beyond 2^(q + 24)
// or below the least subnormal.
TEST(Budget, ExactDotProductsLeaveNoLogitError) {
  const Arithmetic a = TargetArithmetic(OnlineContract(), kernel::DType::kF32, {1, 3, 1});
  LogitRow row({3, 1, 0.5}, 1);
  row.lsb.assign(row.lsb.size(), 0x1p-1);  // 3 <= 2^(q + 24)
  EXPECT_EQ(row.Forward(a).lse_change, 0);
  row.lsb.assign(row.lsb.size(), 0x1p-23);  // 3 > 2^(q + 24)
  EXPECT_GT(row.Forward(a).lse_change, 0);
  // Below the least subnormal nothing is certified, however small the sum.
  row.abs_sum.assign(row.abs_sum.size(), 0x1p-149);
  row.lsb.assign(row.lsb.size(), 0x1p-149);
  EXPECT_EQ(row.Forward(a).lse_change, 0);
  row.lsb.assign(row.lsb.size(), 0x1p-150);
  EXPECT_GT(row.Forward(a).lse_change, 0);
}

}  // namespace
}  // namespace plumbline::oracle
