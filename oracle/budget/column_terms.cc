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
  const double of_dx = abs_g * (5 * a.u + up.g_error) + a.result_underflow * (2 + abs_g);
  // B_dz = B_dx/T (1 + 2u) + 2u |dz| + eta_f + rho 2^-126, then the rounding of d_logits
  label.value = up.g * row.inverse;
  const double abs_dz = std::fabs(label.value);
  label.bound =
      of_dx * row.inverse * (1 + 2 * a.u) + 2 * a.u * abs_dz + a.result_underflow + a.d_logits_lost;
  label.overflow = abs_dz + std::min(label.bound, widest) > a.d_logits.largest;
  if (a.d_logits.u > 0) label.bound += a.d_logits.u * (abs_dz + label.bound) + a.d_logits.eta;
  label.bound *= 1 + 0x1p-20;
  return label;
}

}  // namespace

LogitTerms LogitTermsOf(const Arithmetic& a, int64_t hidden_size) {
  return {a.certificate, std::ldexp(1.0, static_cast<int>(a.certificate_lsb)), a.certificate_limit,
          a.dot_logit, (static_cast<double>(hidden_size) + 1) * a.eta};
}

RowTerms RowTermsOf(const Row& row, double hidden_lsb, const Arithmetic& a) {
  return {row, hidden_lsb, row.inverse * (1 + a.scale_roundings),
          a.scale_before ? a.scale_roundings : 0};
}

GradientTerms GradientTermsOf(const Row& row, const RowBudget& b, const Arithmetic& a,
                              const Upstream& up) {
  const double u = a.u;
  GradientTerms t = {.row = row, .budget = b, .target = a, .upstream = up};
  // exp(x - lse), where x and the m in lse were scaled separately: each has the roundings of the scale.
  t.k_c = a.scale_before || a.ratio ? 0 : a.scale_roundings;
  const double of_lse =
      a.ratio ? 0
              : 2.2 * u * (std::fabs(row.lse) + b.lse_change + b.shift_change) +
                    (a.scale_before || a.scale_exact ? 0 : (t.k_c + u) * std::fabs(row.max_x));
  t.pi_constant = a.exp_error + 2 * u + (a.ratio ? b.sum_error + a.division : b.log_s_error + of_lse);
  t.pi_log = a.ratio ? 0 : u;
  t.log_constant = b.log_s_error + of_lse;
  t.exponent_free = !(a.ratio && a.recompute_same_bits);
  t.exponent_shift = ExponentShift(b, a) + of_lse;
  t.widest = Widest(row, b, a, up) * std::exp(std::min(88.0, LargestExponent(row, b, a)));
  t.infinite_label = InfiniteLabelOf(row, a, up, t.widest);
  return t;
}

}  // namespace plumbline::oracle
