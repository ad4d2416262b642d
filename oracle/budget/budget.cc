// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/budget/column_terms.h"
#include "oracle/budget/probability_errors.h"
#include "oracle/defect.h"

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/budget/budget.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#include "oracle/budget/forward_bound-inl.h"
#include "oracle/budget/gradient_bound-inl.h"
#include "oracle/budget/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {

HWY_INLINE Column<Lanes> LoadColumns(const RowTerms& r, const LogitTerms& terms, const Columns& c,
                                     bool flushes, int64_t i) {
  Lanes bound = LogitBound(r, terms, Load(c.abs_sum + i), Load(c.weight_lsb + i));
  if (flushes) bound = bound + Load(c.flushable + i);
  return ColumnOf(r, Load(c.z + i), bound);
}

// Sums over every column but `without`.
void SumMoments(const RowTerms& r, const LogitTerms& terms, const Columns& c, bool flushes,
                int64_t without, Moments* out) {
  struct {
    Lanes grown, weight, first, second, condition, spread, abs_x, gap;
  } m = {0, 0, 0, 0, 0, 0, 0, kInfinite};
  Lanes index = CountFrom(0);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const Column<Lanes> s = LoadColumns(r, terms, c, flushes, i);
    AddMoments(s, s.present & !(index == static_cast<double>(without)), r.row.entropy, &m);
    index = index + static_cast<double>(kLanes);
  }
  *out = {Sum(m.grown),     Sum(m.weight), Sum(m.first), Sum(m.second),
          Sum(m.condition), Sum(m.spread), Sum(m.abs_x), Least(m.gap)};
}

// The change of one column.
void FindChange(const RowTerms& r, const LogitTerms& terms, const Columns& c, bool flushes,
                int64_t column, Change* out) {
  const int64_t first = column / kLanes * kLanes, lane = column - first;
  const Column<Lanes> s = LoadColumns(r, terms, c, flushes, first);
  double t[kLanes], delta[kLanes], growth[kLanes], grown[kLanes];
  Store(s.t, t);
  Store(s.delta, delta);
  Store(s.growth, growth);
  Store(s.grown, grown);
  *out = {t[lane], delta[lane], growth[lane], grown[lane]};
}

bool BudgetColumns(const RowTerms& r, const LogitTerms& terms, const GradientTerms& gradient,
                   const Columns& c, bool flushes, double* value, double* bound) {
  Lanes index = CountFrom(static_cast<double>(c.first));
  Truth overflow = index < index;
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const Column<Lanes> s = LoadColumns(r, terms, c, flushes, i);
    const DLogit<Lanes> d = DLogitOf(gradient, s, index == static_cast<double>(r.row.label),
                                     index == static_cast<double>(r.row.argmax));
    index = index + static_cast<double>(kLanes);
    Store(d.value, value + i);
    Store(d.bound, bound + i);
    overflow = overflow | d.overflow;
  }
  return Any(overflow);
}

void BudgetTerms(const double* dz, const double* bound, double gain, double least, int64_t count,
                 double* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Store(TermError(Load(dz + i), Load(bound + i), gain, least), out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(SumMoments);
HWY_EXPORT(FindChange);
HWY_EXPORT(BudgetColumns);
HWY_EXPORT(BudgetTerms);

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Evaluating a bound in fp64 loses less than 2^-20 of it for any shape that fits in memory.
constexpr double kEvaluated = 1 + 0x1p-20;

double Log1pAbove(double x) { return std::isfinite(x) ? std::log1p(x) * (1 + 0x1p-40) : kInfinity; }

bool Flushes(const Columns& c, const Arithmetic& a) {
  return a.flush_operands && c.flushable != nullptr && kPlanted != OracleDefect::kNoFlushedOperands;
}

// The sums of "Sums" over all columns, with w = p e^(delta + L), t' = t + delta + D + sigma and
// rho = eps + k_a u t'. The maximum is added separately, so that nothing is lost beside it where the
// others are small.
struct WeightErrors {
  double weight = 0;     // sum w
  double t = 0;          // sum w t'
  double t_squared = 0;  // sum w t'^2
  double t_rho = 0;      // sum w t' rho
  double rho_s = 0;      // sum w rho, the errors of the additions and the underflow
  double underflow = 0;  // (1 + r) V phi
};

// min(gamma, (1 + max(2^-8, 2 gamma)) sum of the others' weights as computed), gamma of h_s: the others
// err by gamma of their sum among themselves, and by no more than what they have come to where they
// meet the maximum.
double SumBesideExactMax(double gamma, double others) {
  if (others == 0) return 0;
  const double grown = kPlanted == OracleDefect::kShortChain ? 0 : 2 * gamma;
  return std::min(gamma, (1 + std::max(0x1p-8, grown)) * others);
}

WeightErrors WeightErrorsOf(const Row& row, const Moments& others, const Change& max,
                            const RowBudget& b, const Arithmetic& a) {
  WeightErrors e;
  // "The maximum's weight is exactly 1 if t_v >= delta_v + delta_argmax for every other v", and rho =
  // 0.
  const bool max_exact = a.exact_max && others.gap >= max.delta;
  const double shift = b.shift_change, gain = 1 + b.lse_growth;  // e^L = 1 + E
  // c = e^(eps_exp + r (eps_exp + u)) - 1, and k_a with what its square adds, (e^(k_a t) - 1)(1 + c)
  const double c = std::expm1(a.exp_error + a.rescales * (a.exp_error + a.u));
  const double k_a = LargeSlope(a.argument_roundings) * (1 + c);
  const double max_t = max.t + max.delta + shift;
  const double max_weight = gain * (row.inverse_s + max.grown);
  const double max_rho = max_exact ? 0 : c + k_a * max_t;
  const double others_weight = gain * others.weight;
  const double others_t = gain * (others.first + shift * others.weight);
  const double others_t2 =
      gain * (others.second + 2 * shift * others.first + shift * shift * others.weight);
  e.weight = others_weight + max_weight;
  e.t_squared = others_t2 + max_weight * max_t * max_t;
  const double weighted_rho = c * others_weight + k_a * others_t + max_weight * max_rho;
  e.t = others_t + max_weight * max_t;
  e.t_rho = c * others_t + k_a * others_t2 + max_weight * max_t * max_rho;
  // rho_s = sum w rho + (1 + sum w rho) (error of the additions) + (1 + r) V phi
  double summation = Gamma(a.sum_depth, a.u);
  if (max_exact) summation = SumBesideExactMax(summation, others_weight + weighted_rho);
  if constexpr (kPlanted == OracleDefect::kNoSummation) summation = 0;
  e.underflow = (1 + a.rescales) * static_cast<double>(row.vocab) * a.exp_underflow;
  e.rho_s = weighted_rho + (1 + weighted_rho) * summation + e.underflow;
  // s is at least about 1, so no dtype loses more of it than u.
  e.rho_s += a.softmax_sum.u * (1 + e.rho_s);
  return e;
}

// B_l, and rho_s/(1 - rho_s) with it.
void BudgetLogarithm(const Row& row, double rho_s, const Arithmetic& a, RowBudget* b) {
  const double sigma = a.shift_rounding * std::fabs(row.max_x);  // 1.1 u |m|
  // "If rho_s >= 1/4, or sigma >= 80, the bound says nothing." At 80 the exponential still fits.
  b->sum_error = rho_s < 0.25 && sigma < 80 ? rho_s / (1 - rho_s) : kInfinity;
  // B_l = rho_s/(1 - rho_s) + eps_log,abs [l < 0.7 + L + D + sigma + rho_s/(1 - rho_s)]
  //       + (eps_log,rel + 1.1u)(l + P(max) + sigma + rho_s/(1 - rho_s))
  const double moved = b->log_change + b->sum_error;
  const double least = 0.7 + b->lse_change + b->shift_change + b->sum_error;
  const double near_one = row.log_s < least ? a.log_absolute : 0;
  b->log_s_error = b->sum_error + near_one + (a.log_relative + 1.1 * a.u) * (row.log_s + moved);
  if constexpr (kPlanted == OracleDefect::kNoLogError) b->log_s_error = 0;
}

// P(v) = ln1p((E - p_v a_v)(1 + a_v) + a_v (1 - p_v)), the most that ln p_v moves.
double ChangeOfLog(double lse_growth, const Change& v, double complement) {
  const double rest = std::max(0.0, lse_growth - v.grown) + 0x1p-50 * lse_growth;
  return Log1pAbove(rest * (1 + v.growth) + v.growth * complement);
}

double LseBound(const Row& row, const RowBudget& b, const Arithmetic& a) {
  const double u = a.u, max_abs = std::fabs(row.max_x), sigma = a.shift_rounding * max_abs;
  // B_lse = L + B_l + 2.2u (|lse| + L + sigma) + 2 eta_f,
  //         "plus (k_c + 1) u (|m| + D) if scaling comes after the shift, unless it rounds nothing"
  return b.lse_change + b.log_s_error + 2.2 * u * (std::fabs(row.lse) + b.lse_change + sigma) +
         (a.scale_before || a.scale_exact ? 0 : (a.scale_roundings + u) * (max_abs + b.shift_change)) +
         2 * a.result_underflow;
}

double LogprobBound(const Row& row, const Change& label, const RowBudget& b, const Arithmetic& a) {
  const double u = a.u, max_abs = std::fabs(row.max_x), sigma = a.shift_rounding * max_abs;
  // P(y) = ln1p((E - p_y a_y)(1 + a_y) + a_y (1 - p_y)); "delta_y + L" for a logit of its own
  const double together = ChangeOfLog(b.lse_growth, label, row.label_complement);
  const bool separate = a.label_logit_separate && kPlanted != OracleDefect::kNoLabelLogit;
  const double change = separate ? label.delta + b.lse_change : together;
  // B_logprob = P(y) + B_l + k_a u t'_y + 2.2u (|logprob| + P(y) + sigma) + 2 eta_f
  double bound = change + b.log_s_error +
                 a.argument_roundings * (label.t + label.delta + b.shift_change) +
                 2.2 * u * (std::fabs(row.logprob) + change + sigma) + 2 * a.result_underflow;
  if constexpr (kPlanted == OracleDefect::kDoubledLogprob) bound *= 2;
  // x_y - lse: max(6u, 2u + k_c u)(|m| + D + |lse| + |x_y| + delta_y) + k_a u l' more
  if (a.plain_logprob) {
    const double scaled = std::fabs(row.label_z * row.inverse) + label.delta;
    bound += std::max(6 * u, 2 * u + ScaledApart(a)) *
                 (max_abs + b.shift_change + std::fabs(row.lse) + scaled) +
             a.argument_roundings * LargestLog(row, b);
  }
  // "Kept log-probabilities": u_l (|logprob| + B) + eta_l
  if (a.log_probs.u > 0) bound += a.log_probs.u * (std::fabs(row.logprob) + bound) + a.log_probs.eta;
  return bound;
}

// The roundings in lse - sum p x that are relative to lse and to what it cancels with.
double PlainLseError(const Row& row, const RowBudget& b, const Arithmetic& a) {
  return std::max(8 * a.u, 2 * a.u + ScaledApart(a)) *
         (std::fabs(row.max_x) + b.shift_change + std::fabs(row.lse));
}

// What lse - sum p x has more:
// (1 + 128 k_a u) F sum w (|x| + delta) + (1 + F) sum w t' rho + max(8u, 2u + k_c u)(|m| + D + |lse|),
// (1 + F)(1 - rho_s) = (1 + gamma_(h_s + 1)) e^(eps_exp + r (eps_exp + u)) (1 + max(3u, eps_div + k_c
// u)).
double PlainEntropyError(const Row& row, double abs_x, const WeightErrors& e, const RowBudget& b,
                         const Arithmetic& a) {
  const double u = a.u, weight = a.exp_error + a.rescales * (a.exp_error + u);
  const double terms = std::max(3 * u, a.division + ScaledApart(a));
  const double one_f =
      (1 + Gamma(a.sum_depth + 1, u)) * std::exp(weight) * (1 + terms) * (1 + b.sum_error);
  return (one_f - 1) * (1 + 128 * a.argument_roundings) * abs_x + one_f * e.t_rho +
         PlainLseError(row, b, a);
}

// -sum p ln p, or lse - sum p x, with p as backward forms it ("Entropy of probabilities").
double ProbabilityEntropyError(const Row& row, const WeightErrors& e, const RowBudget& b,
                               const Arithmetic& a) {
  const double u = a.u;
  const auto [c_p, k_p, c_l, k_l, log] = ProbabilityErrorsOf(row, b, a);
  // 1 + eta: the product p ln p, which is stored where p is, and the additions
  const double one_eta = (1 + Gamma(a.sum_depth + 1, u)) * (1 + a.probabilities.u);
  const double y = e.t + log * e.weight, y2 = e.t_squared + 2 * log * e.t + log * log * e.weight;
  // sum of p |ln p| ((1 + c_p + k_p y)(1 + eta) - 1) + p (1 + c_p + k_p y)(1 + eta)(c_l + k_l y)
  const double of_p = ((1 + c_p) * one_eta - 1) * y + one_eta * k_p * y2;
  const double of_log = one_eta * ((1 + c_p) * (c_l * e.weight + k_l * y) + k_p * (c_l * y + k_l * y2));
  const double underflow = 110 * static_cast<double>(row.vocab) * a.exp_underflow +
                           RoundedUnderflow(row, c_l, k_l, a.probabilities);
  if (!a.plain_entropy) return of_p + of_log + underflow;
  // lse - sum p x: the terms p x, |x| <= |m| + D + t', have the errors of p and of the scale, and lse
  // has B_l + max(8u, 2u + k_c u)(|m| + D + |lse|).
  const double m = std::fabs(row.max_x) + b.shift_change, x = e.t + m * e.weight;
  const double xy = m * y + e.t_squared + log * e.t, one_x = one_eta * (1 + ScaledApart(a));
  return ((1 + c_p) * one_x - 1) * x + one_x * k_p * xy + (100 + m) * underflow + b.log_s_error +
         PlainLseError(row, b, a);
}

// Whether a partial sum of e x may be infinite. Before the maximum is seen any e may be 1, but for its
// errors, the rounding of what is subtracted and an argument that is off by a tenth; no delta is beyond
// D + t; and no addition errs by more than its smaller operand.
bool PlainSumOverflows(const Row& row, const RowBudget& b, const Arithmetic& a) {
  const double each = std::exp(a.shift_rounding * row.max_abs_x) * (3 * row.max_abs_x + b.shift_change);
  const double gain = 2.4 * std::exp((a.rescales + 1) * (a.exp_error + a.u));
  return !(gain * static_cast<double>(row.vocab) * each <= std::numeric_limits<float>::max());
}

// B_H, and the bound of the entropy as it is written.
void BudgetEntropy(const Row& row, const Moments& others, const Change& max, const WeightErrors& e,
                   const Arithmetic& a, RowBudget* b) {
  const double u = a.u, gain = 1 + b->lse_growth, max_p = row.inverse_s + max.grown;
  // |change of H| <= e^L sum p |ln p + H| a + 1/2 sum p e^(delta + L) delta^2
  const double tilt = std::fabs(row.entropy - row.log_s);
  const double condition = gain * (others.condition + tilt * max.grown) +
                           0.5 * gain * (others.spread + max_p * max.delta * max.delta);
  if (a.entropy_of_probabilities) {
    b->entropy_error = condition + ProbabilityEntropyError(row, e, *b, a);
    // B_1 = c_p sum w + k_p sum w y + V phi
    const ProbabilityErrors of = ProbabilityErrorsOf(row, *b, a);
    b->total_error = of.c_p * e.weight + of.k_p * (e.t + of.log * e.weight) +
                     static_cast<double>(row.vocab) * (a.exp_underflow + a.probabilities.eta);
    // x - lse may be positive by the errors of lse and of the scale.
    const double m = std::fabs(row.max_x) + b->shift_change;
    b->entropy_overflows =
        !a.ratio && !(b->log_s_error + LseError(row, *b, a) + ScaledApart(a) * m <= 88);
  } else {
    // B_H = (propagation) + B_l + (1 + F) sum w t' rho + F sum w t' + 100 (1 + r) V phi, where
    // 1 + F = (1 + gamma_(h_s + 2))(1 + r u)(1 + k_a u)(1 + eps_q)/(1 - rho_s)
    const double one_f = (1 + Gamma(a.sum_depth + 2, u)) * (1 + a.rescales * u) *
                         (1 + a.argument_roundings) * (1 + a.entropy_division) * (1 + b->sum_error);
    b->entropy_error =
        condition + b->log_s_error + one_f * e.t_rho + (one_f - 1) * e.t + 100 * e.underflow;
  }
  if (a.plain_entropy && !a.entropy_of_probabilities) {
    const double abs_x = gain * (others.abs_x + max_p * (std::fabs(row.max_x) + max.delta));
    b->entropy_error += PlainEntropyError(row, abs_x, e, *b, a);
    b->entropy_overflows =
        kPlanted != OracleDefect::kPlainSumNeverOverflows && PlainSumOverflows(row, *b, a);
  }
  // "The output itself has 3.2u (H + propagation) + 2 eta_f more."
  b->entropy = b->entropy_error + 3.2 * u * (row.entropy + condition) + 2 * a.result_underflow;
}

}  // namespace

RowBudget BudgetForward(const Row& row, const Columns& all, const Arithmetic& a, int64_t hidden_size) {
  const RowTerms r = RowTermsOf(row, all.hidden_lsb, a);
  const LogitTerms terms = LogitTermsOf(a, hidden_size);
  const bool flushes = Flushes(all, a);
  Moments others;
  Change max, label;
  HWY_DYNAMIC_DISPATCH(SumMoments)(r, terms, all, flushes, row.argmax, &others);
  HWY_DYNAMIC_DISPATCH(FindChange)(r, terms, all, flushes, row.argmax, &max);
  if (row.logprob != -kInfinity) {
    HWY_DYNAMIC_DISPATCH(FindChange)(r, terms, all, flushes, row.label, &label);
  }
  return BudgetForward(row, others, max, label, a);
}

RowBudget BudgetForward(const Row& row, const Moments& others, const Change& max, const Change& label,
                        const Arithmetic& a) {
  RowBudget b;
  b.lse_growth = others.grown + max.grown;  // E = sum p a
  b.lse_change = Log1pAbove(b.lse_growth);  // L = ln(1 + E)
  // D = max(delta_argmax, max over v of delta_v - t_v), and sigma = 1.1 u |m| with it
  const double sigma = a.shift_rounding * std::fabs(row.max_x);
  b.shift_change = std::max(max.delta, -others.gap) + sigma;
  // ln s is -ln p of the maximum, or of another logit only if that has a larger p.
  b.log_change = ChangeOfLog(b.lse_growth, max, row.rest * row.inverse_s) + sigma;
  const WeightErrors errors = WeightErrorsOf(row, others, max, b, a);
  BudgetLogarithm(row, errors.rho_s, a, &b);
  b.lse = LseBound(row, b, a);
  if (row.logprob != -kInfinity) b.logprob = LogprobBound(row, label, b, a);
  BudgetEntropy(row, others, max, errors, a, &b);
  for (double* bound : {&b.lse, &b.logprob, &b.entropy, &b.entropy_error, &b.total_error}) {
    *bound *= kEvaluated;
    if (std::isnan(*bound)) *bound = kInfinity;
  }
  return b;
}

bool BudgetGradient(const Row& row, const Columns& columns, const RowBudget& budget,
                    const Arithmetic& arithmetic, int64_t hidden_size, const Upstream& upstream,
                    double* value, double* bound) {
  return HWY_DYNAMIC_DISPATCH(BudgetColumns)(RowTermsOf(row, columns.hidden_lsb, arithmetic),
                                             LogitTermsOf(arithmetic, hidden_size),
                                             GradientTermsOf(row, budget, arithmetic, upstream),
                                             columns, Flushes(columns, arithmetic), value, bound);
}

void BudgetTerms(const double* dz, const double* bound, double gain, double least, int64_t count,
                 double* out) {
  HWY_DYNAMIC_DISPATCH(BudgetTerms)(dz, bound, gain, least, count, out);
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE
