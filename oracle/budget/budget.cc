// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/budget.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "oracle/budget/gradient_terms.h"
#include "oracle/defect.h"

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/budget/budget.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kColumnStep>;
using Vec = hn::Vec<Doubles>;
using Mask = hn::Mask<Doubles>;
constexpr Doubles kD;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Doubles()));
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kAbove = 1 + 0x1p-40;  // beyond the error of the library's functions, 4 ulp at most

HWY_INLINE Vec Constant(double x) { return hn::Set(kD, x); }

// Upper bounds of e^x - 1 and ln(1 + x), within 2^-20 relative, for x >= 0. They are cheap where x is
// small, as it nearly always is.
HWY_INLINE Vec ExpM1Above(Vec x) {
  const auto small = hn::Lt(x, Constant(0x1p-6));
  Vec p = hn::MulAdd(x, Constant(0.0425), Constant(1.0 / 6));
  p = hn::MulAdd(x, p, Constant(0.5));
  p = hn::MulAdd(x, p, Constant(1));
  p = hn::Mul(x, p);
  if (hn::AllTrue(kD, small)) return p;
  const auto finite = hn::Lt(x, Constant(700));
  const Vec bounded = hn::IfThenElse(finite, x, Constant(1));
  const Vec full = hn::Mul(hn::CallExpm1(kD, bounded), Constant(kAbove));
  return hn::IfThenElse(small, p, hn::IfThenElse(finite, full, Constant(kInf)));
}
HWY_INLINE Vec Log1pAbove(Vec x) {
  const auto small = hn::Lt(x, Constant(0x1p-6));
  Vec p = hn::NegMulAdd(x, hn::NegMulAdd(x, Constant(1.0 / 3), Constant(0.5)), Constant(1));
  p = hn::Mul(x, p);
  if (hn::AllTrue(kD, small)) return p;
  const auto finite = hn::Lt(x, Constant(1e300));
  const Vec bounded = hn::IfThenElse(finite, x, Constant(1));
  const Vec full = hn::Mul(hn::CallLog1p(kD, bounded), Constant(kAbove));
  return hn::IfThenElse(small, p, hn::IfThenElse(finite, full, Constant(kInf)));
}
// p (e^x - 1) from ln p + x where x is large: p may have underflowed though the product has not.
HWY_INLINE Vec Grown(Vec p, Vec log_p, Vec x) {
  const auto small = hn::Lt(x, Constant(1));
  const Vec near = hn::Mul(p, ExpM1Above(hn::IfThenElseZero(small, x)));
  if (hn::AllTrue(kD, small)) return near;
  const Vec power = hn::Add(log_p, x);
  const auto finite = hn::Lt(power, Constant(700));
  const auto zero = hn::Lt(power, Constant(-746));
  const Vec bounded = hn::IfThenElse(hn::AndNot(zero, finite), power, hn::Zero(kD));
  // Rounds up also where the exponential underflows.
  const Vec full = hn::Add(hn::Mul(hn::CallExp(kD, bounded), Constant(kAbove)), Constant(0x1p-1074));
  const Vec far = hn::IfThenElse(zero, Constant(0x1p-1074), full);
  return hn::IfThenElse(small, near, hn::IfThenElse(finite, far, Constant(kInf)));
}

// The constants of a row, in registers or near them.
struct RowConstants {
  RowConstants(const Row& row, const Columns& c, const Arithmetic& a, int64_t hidden_size)
      : max_z(row.max_z),
        inverse(row.inverse),
        inverse_s(row.inverse_s),
        log_s(row.log_s),
        certificate(a.certificate),
        flushes(a.flush_operands && c.flushable != nullptr),
        least_product(c.hidden_lsb),
        least_certified(std::ldexp(1.0, static_cast<int>(a.certificate_lsb))),
        certificate_limit(a.certificate_limit),
        dot(a.dot_logit),
        underflow((static_cast<double>(hidden_size) + 1) * a.eta),
        scale(row.inverse * (1 + a.scale_roundings)),
        before(a.scale_before ? a.scale_roundings : 0) {}
  double max_z, inverse, inverse_s, log_s;
  bool certificate, flushes;
  double least_product, least_certified, certificate_limit;
  double dot, underflow, scale, before;
};

struct ColumnState {
  Mask present;  // z > -inf
  Vec x, t, log_p, p;
  Vec delta, growth, grown;
};

HWY_INLINE ColumnState LoadColumns(const RowConstants& r, const Columns& c, int64_t i) {
  ColumnState s;
  const Vec raw = hn::LoadU(kD, c.z + i);
  s.present = hn::Gt(raw, Constant(-kInf));
  const Vec z = hn::IfThenElse(s.present, raw, Constant(r.max_z));
  s.x = hn::Mul(z, Constant(r.inverse));
  s.t = hn::Mul(hn::Sub(Constant(r.max_z), z), Constant(r.inverse));
  s.log_p = hn::Neg(hn::Add(s.t, Constant(r.log_s)));
  const auto positive = hn::And(s.present, hn::Lt(s.t, Constant(746)));
  s.p = hn::IfThenElseZero(positive, hn::Mul(hn::Exp(kD, hn::Neg(s.t)), Constant(r.inverse_s)));

  const Vec abs_sum = hn::LoadU(kD, c.abs_sum + i);
  Vec radius = hn::MulAdd(Constant(r.dot), abs_sum, Constant(r.underflow));
  if (r.certificate) {
    const Vec least = hn::Mul(Constant(r.least_product), hn::LoadU(kD, c.weight_lsb + i));
    const double wide = kPlanted == OracleDefect::kCertificateTooWide ? 2 : 1;
    const Vec limit = hn::Min(hn::Mul(least, Constant(wide * r.certificate_limit)), Constant(0x1p127));
    const auto exact =
        hn::Or(hn::Eq(abs_sum, hn::Zero(kD)),
               hn::And(hn::Ge(least, Constant(r.least_certified)), hn::Le(abs_sum, limit)));
    radius = hn::IfThenZeroElse(exact, radius);
  }
  const bool planted = kPlanted == OracleDefect::kNoFlushedOperands;
  if (r.flushes && !planted) radius = hn::Add(radius, hn::LoadU(kD, c.flushable + i));
  const Vec delta = hn::MulAdd(radius, Constant(r.scale), hn::Mul(hn::Abs(s.x), Constant(r.before)));
  s.delta = hn::IfThenElseZero(s.present, delta);
  if constexpr (kPlanted == OracleDefect::kNoPropagation) s.delta = hn::Zero(kD);
  s.growth = ExpM1Above(s.delta);
  s.grown = Grown(s.p, s.log_p, s.delta);
  s.grown = hn::IfThenElseZero(hn::And(s.present, hn::Gt(s.delta, hn::Zero(kD))), s.grown);
  return s;
}

HWY_INLINE double Sum(Vec v) { return hn::GetLane(hn::SumOfLanes(kD, v)); }

// Sums over every column but `without`.
void SumMoments(const Row& row, const Columns& c, const Arithmetic& a, int64_t hidden_size,
                int64_t without, Moments* out) {
  const RowConstants r(row, c, a, hidden_size);
  Vec grown = hn::Zero(kD), weight = grown, first = grown, second = grown, condition = grown,
      spread = grown, abs_x = grown, gap = Constant(kInf), index = hn::Iota(kD, 0);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const ColumnState s = LoadColumns(r, c, i);
    const auto counts = hn::AndNot(hn::Eq(index, Constant(static_cast<double>(without))), s.present);
    index = hn::Add(index, Constant(static_cast<double>(kLanes)));
    const Vec g = hn::IfThenElseZero(counts, s.grown);
    const Vec w = hn::IfThenElseZero(counts, hn::Add(s.p, s.grown));
    const Vec tau = hn::Add(s.t, s.delta);
    const Vec w_tau = hn::Mul(w, tau);
    grown = hn::Add(grown, g);
    weight = hn::Add(weight, w);
    first = hn::Add(first, w_tau);
    second = hn::MulAdd(w_tau, tau, second);
    condition = hn::MulAdd(hn::Abs(hn::Add(s.log_p, Constant(row.entropy))), g, condition);
    spread = hn::MulAdd(hn::Mul(w, s.delta), s.delta, spread);
    abs_x = hn::MulAdd(w, hn::Abs(s.x), abs_x);
    gap = hn::Min(gap, hn::IfThenElse(counts, hn::Sub(s.t, s.delta), Constant(kInf)));
  }
  *out = {Sum(grown),     Sum(weight), Sum(first), Sum(second),
          Sum(condition), Sum(spread), Sum(abs_x), hn::GetLane(hn::MinOfLanes(kD, gap))};
}

// The change of one column.
void FindChange(const Row& row, const Columns& c, const Arithmetic& a, int64_t hidden_size,
                int64_t column, Change* out) {
  const int64_t first = column / kLanes * kLanes, lane = column - first;
  const ColumnState s = LoadColumns(RowConstants(row, c, a, hidden_size), c, first);
  double t[kLanes], delta[kLanes], growth[kLanes], grown[kLanes];
  hn::StoreU(s.t, kD, t);
  hn::StoreU(s.delta, kD, delta);
  hn::StoreU(s.growth, kD, growth);
  hn::StoreU(s.grown, kD, grown);
  *out = {t[lane], delta[lane], growth[lane], grown[lane]};
}

// Formulas: ERROR-BUDGET.md, "Gradients". pi is the relative error of p, `tilt` is |ln p + H|.
bool BudgetGradient(const Row& row, const Columns& c, const RowBudget& b, const Arithmetic& a,
                    int64_t hidden_size, const Upstream& up, double* value, double* bound) {
  const RowConstants r(row, c, a, hidden_size);
  const GradientTerms terms_of = GradientTermsOf(row, b, a, up);
  const double u = a.u, inverse = row.inverse;
  const double abs_g = std::fabs(up.g), abs_k = std::fabs(up.k);
  const auto [k_c, pi_constant, pi_log, log_constant] =
      std::array{terms_of.k_c, terms_of.pi_constant, terms_of.pi_log, terms_of.log_constant};
  const double phi = terms_of.phi, others_slack = terms_of.others_slack;
  const bool exponent_free = terms_of.exponent_free;
  const double exponent_shift = terms_of.exponent_shift, max_complement = terms_of.max_complement;
  const double widest = terms_of.widest;
  const Vec infinity = Constant(kInf), zero = hn::Zero(kD), one = Constant(1);
  Vec index = hn::Iota(kD, static_cast<double>(c.first));
  auto overflow = hn::Lt(one, zero);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const ColumnState s = LoadColumns(r, c, i);
    const auto is_label = hn::Eq(index, Constant(static_cast<double>(row.label)));
    const auto is_max = hn::Eq(index, Constant(static_cast<double>(row.argmax)));
    index = hn::Add(index, Constant(static_cast<double>(kLanes)));
    const Vec signed_tilt = hn::Add(s.log_p, Constant(row.entropy));
    const Vec tilt = hn::Abs(signed_tilt), abs_log_p = hn::Abs(s.log_p);
    const Vec t = hn::Add(s.t, hn::Add(s.delta, Constant(b.shift_change)));

    Vec change;
    if (a.recompute_same_bits) {
      const Vec others =
          hn::Add(hn::Max(zero, hn::Sub(Constant(b.lse_growth), s.grown)), Constant(others_slack));
      const Vec complement = hn::IfThenElse(is_max, Constant(max_complement), hn::Sub(one, s.p));
      const Vec moved = hn::MulAdd(s.growth, complement, hn::Mul(others, hn::Add(one, s.growth)));
      change = Log1pAbove(hn::IfThenElse(hn::IsNaN(moved), infinity, moved));
    } else {
      change = hn::Add(s.delta, Constant(b.lse_change));
    }
    const Vec argument = hn::Mul(Constant(a.argument_roundings), t);
    const Vec scaling = hn::Mul(Constant(k_c), hn::Abs(s.x));
    Vec pi = hn::Add(hn::Add(change, scaling), hn::Add(Constant(pi_constant), argument));
    pi = hn::MulAdd(Constant(pi_log), abs_log_p, pi);
    if (exponent_free) {
      const Vec exponent = hn::Add(hn::Sub(s.delta, s.t), hn::Add(scaling, Constant(exponent_shift)));
      overflow = hn::Or(overflow, hn::And(s.present, hn::Gt(exponent, Constant(88))));
    }
    const Vec p_error = Grown(s.p, s.log_p, pi);
    const Vec slope = hn::IfThenElse(is_label, Constant(row.label_complement), s.p);

    Vec total = zero, dx = zero, terms = zero;
    if (abs_g > 0) {
      const Vec error = hn::MulAdd(hn::Add(p_error, Constant(phi)), Constant(1 + u),
                                   hn::Mul(Constant(3 * u + up.g_error), slope));
      total = hn::Mul(Constant(abs_g), error);
      dx = hn::Mul(Constant(up.g), hn::IfThenElse(is_label, slope, hn::Neg(slope)));
      if constexpr (kPlanted == OracleDefect::kLabelSign) dx = hn::Mul(Constant(-up.g), slope);
      terms = hn::Abs(dx);
    }
    if (abs_k > 0) {
      const Vec log_error =
          hn::Add(hn::Add(hn::Add(change, scaling), hn::Add(Constant(log_constant), argument)),
                  hn::Mul(Constant(4 * u), hn::Add(abs_log_p, change)));
      Vec error = hn::Mul(tilt, p_error);
      error = hn::MulAdd(Constant(phi), hn::Min(tilt, Constant(88 + row.entropy)), error);
      const Vec inner = hn::Add(hn::Add(log_error, Constant(b.entropy_error)),
                                hn::Mul(Constant(u), hn::Add(tilt, Constant(row.entropy))));
      error = hn::MulAdd(hn::Add(s.p, hn::Add(p_error, Constant(phi))), inner, error);
      error = hn::MulAdd(hn::Mul(Constant(4 * u), s.p), tilt, error);
      total = hn::MulAdd(Constant(abs_k), error, total);
      const double minus_k = kPlanted == OracleDefect::kEntropySign ? up.k : -up.k;
      const Vec dx_entropy =
          hn::IfThenElseZero(hn::Gt(s.p, zero), hn::Mul(Constant(minus_k), hn::Mul(s.p, signed_tilt)));
      dx = hn::Add(dx, dx_entropy);
      terms = hn::Add(terms, hn::Abs(dx_entropy));
    }
    total = hn::MulAdd(Constant(2 * u), terms, total);
    // A kernel may form k p, which may underflow, before it multiplies by ln p + H, and likewise k / T.
    const bool late_too = abs_k > 0 && kPlanted != OracleDefect::kNoLateUnderflow;
    const Vec late = late_too ? hn::Min(tilt, Constant(104 + row.entropy)) : zero;
    const Vec underflow =
        hn::Add(late, hn::MulAdd(Constant(abs_k), hn::Add(abs_log_p, Constant(2 + row.entropy)),
                                 Constant(2 + abs_g)));
    total = hn::MulAdd(Constant(a.result_underflow), underflow, total);

    const Vec dz = hn::Mul(dx, Constant(inverse)), abs_dz = hn::Abs(dz);
    total = hn::MulAdd(total, Constant(inverse * (1 + 2 * u)),
                       hn::MulAdd(Constant(2 * u), abs_dz,
                                  hn::MulAdd(Constant(a.result_underflow), hn::Add(one, late),
                                             Constant(a.d_logits_lost))));
    total = hn::IfThenElse(hn::IsNaN(total), infinity, total);
    const Vec reach = hn::Add(abs_dz, hn::Min(total, Constant(widest)));
    overflow = hn::Or(overflow, hn::And(s.present, hn::Gt(reach, Constant(a.d_logits.largest))));
    if (a.d_logits.u > 0 && kPlanted != OracleDefect::kNoDLogitsRounding) {
      total = hn::Add(
          total, hn::MulAdd(Constant(a.d_logits.u), hn::Add(abs_dz, total), Constant(a.d_logits.eta)));
    }
    // Evaluating a bound in fp64 loses less than 2^-20 of it for any shape that fits in memory.
    total = hn::Mul(total, Constant(1 + 0x1p-20));
    const bool everywhere = kPlanted == OracleDefect::kInfiniteLabelMoves;
    hn::StoreU(everywhere ? dz : hn::IfThenElseZero(s.present, dz), kD, value + i);
    hn::StoreU(hn::IfThenElseZero(s.present, total), kD, bound + i);
  }
  return !hn::AllFalse(kD, overflow);
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(SumMoments);
HWY_EXPORT(FindChange);
HWY_EXPORT(BudgetGradient);

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Log1p(double x) { return std::isfinite(x) ? std::log1p(x) * (1 + 0x1p-40) : kInfinity; }

}  // namespace

RowBudget BudgetForward(const Row& row, const Columns& all, const Arithmetic& a, int64_t hidden_size) {
  Moments others;
  Change max, label;
  HWY_DYNAMIC_DISPATCH(SumMoments)(row, all, a, hidden_size, row.argmax, &others);
  HWY_DYNAMIC_DISPATCH(FindChange)(row, all, a, hidden_size, row.argmax, &max);
  if (row.logprob != -kInfinity) {
    HWY_DYNAMIC_DISPATCH(FindChange)(row, all, a, hidden_size, row.label, &label);
  }
  return BudgetForward(row, others, max, label, a);
}

RowBudget BudgetForward(const Row& row, const Moments& others, const Change& max, const Change& label,
                        const Arithmetic& a) {
  RowBudget b;
  const double u = a.u;
  b.lse_growth = others.grown + max.grown;
  b.lse_change = Log1p(b.lse_growth);
  b.shift_change = std::max(max.delta, -others.gap) + a.shift_rounding * std::fabs(row.max_x);
  const bool separated = others.gap >= max.delta;
  const bool max_exact = a.exact_max && separated;
  const double big_l = b.lse_change, shift = b.shift_change, gain = 1 + b.lse_growth;

  // Weights are w = p e^(delta + L), with relative errors rho_v = c + k_a t', which move s and q. The
  // maximum is added separately, so that nothing is lost beside it where the others are small.
  const double c = a.exp_error + a.rescales * (a.exp_error + u), k_a = a.argument_roundings;
  const double max_p = row.inverse_s, max_t = max.t + max.delta + shift;
  const double max_weight = gain * (max_p + max.grown);
  const double max_rho = max_exact ? 0 : c + k_a * max_t;
  const double others_weight = gain * others.weight;
  const double others_t = gain * (others.first + shift * others.weight);
  const double others_t2 =
      gain * (others.second + 2 * shift * others.first + shift * shift * others.weight);
  const double weighted_rho = c * others_weight + k_a * others_t + max_weight * max_rho;
  const double weighted_t = others_t + max_weight * max_t;
  const double weighted_t_rho = c * others_t + k_a * others_t2 + max_weight * max_t * max_rho;
  const double gamma_sum = Gamma(a.sum_depth, u);
  double summation = max_exact ? std::min(gamma_sum, (1 + 0x1p-8) * others_weight) : gamma_sum;
  if constexpr (kPlanted == OracleDefect::kNoSummation) summation = 0;
  const double underflow = (1 + a.rescales) * static_cast<double>(row.vocab) * a.exp_underflow;
  const double rho_s = weighted_rho + summation + underflow;
  // What is subtracted for m is also in ln s, so a rounded m makes both larger. At 80 its exponential
  // still fits.
  const double moved = a.shift_rounding * std::fabs(row.max_x);
  b.sum_error = rho_s < 0.25 && moved < 80 ? rho_s / (1 - rho_s) : kInfinity;

  // The logarithm is taken of the s that was computed, which may be below 2 where s is not.
  const double log_near_one = row.log_s < 0.7 + big_l + moved + b.sum_error ? a.log_absolute : 0;
  b.log_s_error = b.sum_error + log_near_one + (a.log_relative + 1.1 * u) * (row.log_s + big_l + moved);
  if constexpr (kPlanted == OracleDefect::kNoLogError) b.log_s_error = 0;

  const double max_abs = std::fabs(row.max_x), lse_abs = std::fabs(row.lse);
  b.lse = big_l + b.log_s_error + 2.2 * u * (lse_abs + big_l + moved) +
          (a.scale_before || a.scale_exact ? 0 : (a.scale_roundings + u) * max_abs) +
          2 * a.result_underflow;

  if (row.logprob != -kInfinity) {
    const double rest = std::max(0.0, b.lse_growth - label.grown) + 0x1p-50 * b.lse_growth;
    const double together = Log1p(rest * (1 + label.growth) + label.growth * row.label_complement);
    const bool separate = a.label_logit_separate && kPlanted != OracleDefect::kNoLabelLogit;
    const double change = separate ? label.delta + big_l : together;
    b.logprob = change + b.log_s_error + k_a * (label.t + label.delta + shift) +
                2.2 * u * (std::fabs(row.logprob) + change + moved) + 2 * a.result_underflow;
    if constexpr (kPlanted == OracleDefect::kDoubledLogprob) b.logprob *= 2;
    if (a.plain_logprob) {
      b.logprob += 6 * u * (max_abs + lse_abs + std::fabs(row.label_z * row.inverse));
    }
  }

  const double tilt = std::fabs(row.entropy - row.log_s);
  const double condition = gain * (others.condition + tilt * max.grown) +
                           0.5 * gain * (others.spread + (max_p + max.grown) * max.delta * max.delta);
  b.entropy_error =
      condition + b.log_s_error + weighted_t_rho +
      weighted_t * (Gamma(a.sum_depth + 2, u) + b.sum_error + (a.rescales + 4) * u + k_a) +
      100 * underflow;
  b.entropy = b.entropy_error + 3.2 * u * (row.entropy + condition) + 2 * a.result_underflow;
  if (a.plain_entropy) {
    const double sum = gain * (others.abs_x + (max_p + max.grown) * max_abs);
    const double extra = sum * (Gamma(a.sum_depth + 4, u) + c + b.sum_error) + weighted_t_rho +
                         8 * u * (max_abs + lse_abs);
    b.entropy += extra;
    b.entropy_error += extra;
  }
  // Evaluating a bound in fp64 loses less than 2^-20 of it for any shape that fits in memory.
  for (double* bound : {&b.lse, &b.logprob, &b.entropy, &b.entropy_error}) {
    *bound *= 1 + 0x1p-20;
    if (std::isnan(*bound)) *bound = kInfinity;
  }
  return b;
}

bool BudgetGradient(const Row& row, const Columns& columns, const RowBudget& budget,
                    const Arithmetic& arithmetic, int64_t hidden_size, const Upstream& upstream,
                    double* value, double* bound) {
  return HWY_DYNAMIC_DISPATCH(BudgetGradient)(row, columns, budget, arithmetic, hidden_size, upstream,
                                              value, bound);
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE
