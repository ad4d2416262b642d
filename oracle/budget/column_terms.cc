// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/column_terms.h"

#include <algorithm>
#include <cmath>

#include "oracle/budget/overflow.h"
#include "oracle/defect.h"

namespace plumbline::oracle {
namespace {

// "A label whose logit is -inf": B_dz with E_p = phi = 0, [v = y] - p = 1 and no entropy term.
InfiniteLabel InfiniteLabelOf(const Row& row, const Arithmetic& a, const Upstream& up, double widest) {
  InfiniteLabel label;
  if (!std::isinf(row.label_z) || up.g == 0 || kPlanted == OracleDefect::kInfiniteLabelStays ||
      up.drops_infinite_label) {
    return label;
  }
  const double abs_g = std::fabs(up.g);
  // B_dx = |g|(5u + eps_g) + eta_f (2 + |g|)
  double of_dx = abs_g * (5 * a.u + up.g_error) + a.result_underflow * (2 + abs_g);
  // G is formed first: eps_G |g| + 6 eta_G. With k = 0 it is g, and exact unless it is stored in 16
  // bits.
  const bool of_g = a.log_softmax_backward && (up.k != 0 || a.probabilities.u > 0);
  if (of_g && kPlanted != OracleDefect::kLabelGradientIsExact) {
    of_dx += a.log_gradient * abs_g + 6 * a.log_gradient_underflow;
  }
  if (a.dx.u > 0) {
    label.overflow = abs_g + of_dx > a.dx.largest;
    of_dx += a.dx.u * (abs_g + of_dx) + a.dx.eta;
  }
  // B_dz = B_dx/T (1 + eps_T) + eps_T |dz| + max(0, eps_T - 3u) |g|/T + eta_T + rho 2^-126, then the
  // rounding of d_logits
  label.value = up.g * row.inverse;
  const double abs_dz = std::fabs(label.value);
  const double by_t = a.temperature_division;
  label.bound = of_dx * row.inverse * (1 + by_t) + (by_t + std::max(0.0, by_t - 3 * a.u)) * abs_dz +
                (a.flush ? 2 : 1) * a.result_underflow + a.d_logits_lost;
  label.overflow = label.overflow || abs_dz + std::min(label.bound, widest) > a.d_logits.largest;
  if (a.d_logits.u > 0) label.bound += a.d_logits.u * (abs_dz + label.bound) + a.d_logits.eta;
  label.bound *= 1 + 0x1p-20;
  return label;
}

}  // namespace

LogitTerms LogitTermsOf(const Arithmetic& a, int64_t hidden_size) {
  // Rounded logits come with the bounds of their errors in the place of S.
  if (a.RoundsLogits()) return {.certificate = false, .dot = 1};
  return {a.certificate, std::ldexp(1.0, static_cast<int>(a.certificate_lsb)), a.certificate_limit,
          a.dot_logit, (static_cast<double>(hidden_size) + 1) * a.eta + a.partial_underflow};
}

RowTerms RowTermsOf(const Row& row, double hidden_lsb, const Arithmetic& a) {
  if (a.scaled_logits) return {row, hidden_lsb, 1, 0};
  return {row, hidden_lsb, row.inverse * (1 + a.scale_roundings),
          a.scale_before ? a.scale_roundings : 0};
}

double LseError(const Row& row, const RowBudget& b, const Arithmetic& a) {
  if (a.ratio) return 0;
  const double sum = 2.2 * a.u * (std::fabs(row.lse) + b.lse_change + b.shift_change);
  if (a.scale_before || a.scale_exact) return sum;
  return sum + (a.scale_roundings + a.u) * (std::fabs(row.max_x) + b.shift_change);
}

double LargestLog(const Row& row, const RowBudget& b) {
  return row.log_s + b.log_change + b.log_s_error;
}

// B_S = |k| B_1 + ((1 + eps_G)(1 + gamma_(h_s + 2))(1 + 2.1 eps_exp + 2u) - 1)(|g| + |k| M) + 6 V
// eta_G, M = 1 + B_1 + H + 3 B_H: what p sum G is off by, in units of p ("Gradients of
// log-probabilities").
double GradientSumError(const Row& row, const RowBudget& b, const Arithmetic& a, const Upstream& up) {
  if (!a.log_softmax_backward || (up.k == 0 && a.probabilities.u == 0)) return 0;
  if constexpr (kPlanted == OracleDefect::kGradientSumIsExact) return 0;
  const double abs_k = std::fabs(up.k);
  const double size = std::fabs(up.g) + abs_k * (1 + b.total_error + row.entropy + 3 * b.entropy_error);
  const double relative =
      std::expm1(std::log1p(Gamma(a.sum_depth + 2, a.u)) + std::log1p(a.log_gradient) +
                 std::log1p(2.1 * a.exp_error + 2 * a.u));
  return abs_k * b.total_error + relative * size +
         6 * static_cast<double>(row.vocab) * a.log_gradient_underflow;
}

GradientTerms GradientTermsOf(const Row& row, const RowBudget& b, const Arithmetic& a,
                              const Upstream& up) {
  const double u = a.u;
  GradientTerms t = {.row = row, .budget = b, .target = a, .upstream = up};
  // exp(x - lse), where x and the m in lse were scaled separately: each has the roundings of the scale.
  t.k_c = a.scale_before || a.ratio ? 0 : a.scale_roundings;
  const double of_lse = LseError(row, b, a);
  // exp(x - lse): every rounding of the exponent is relative to t + ln s, not to t.
  const bool of_gap = a.ratio || kPlanted == OracleDefect::kArgumentOfGap;
  t.exponent_log = of_gap ? 0 : LargestLog(row, b);
  t.pi_constant = a.exp_error + 2 * u + (a.ratio ? b.sum_error + a.division : b.log_s_error + of_lse);
  t.pi_log = a.ratio ? 0 : u;
  t.log_constant = b.log_s_error + of_lse;
  t.gradient_sum = GradientSumError(row, b, a, up);
  t.exponent_free = !(a.ratio && a.recompute_same_bits);
  t.exponent_shift = ExponentShift(b, a) + of_lse;
  t.factor_overflows = FactorOverflows(row, b, a, up);
  t.widest = Widest(row, b, a, up) * std::exp(std::min(88.0, LargestExponent(row, b, a)));
  t.infinite_label = InfiniteLabelOf(row, a, up, t.widest);
  return t;
}

}  // namespace plumbline::oracle
