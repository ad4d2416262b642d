// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/gradient_terms.h"

#include <algorithm>
#include <cmath>

#include "oracle/budget/overflow.h"

namespace plumbline::oracle {

GradientTerms GradientTermsOf(const Row& row, const RowBudget& b, const Arithmetic& a,
                              const Upstream& up) {
  const double u = a.u;
  GradientTerms t;
  t.label = row.label;
  t.argmax = row.argmax;
  t.u = u;
  t.g = up.g;
  t.k = up.k;
  t.g_error = up.g_error;
  t.inverse = row.inverse;
  t.entropy = row.entropy;
  t.label_complement = row.label_complement;
  t.max_complement = row.rest * row.inverse_s;
  // exp(x - lse), where x and the m in lse were scaled separately: each has the roundings of the scale.
  t.k_c = a.scale_before || a.ratio ? 0 : a.scale_roundings;
  const double of_lse =
      a.ratio ? 0
              : 2.2 * u * (std::fabs(row.lse) + b.lse_change + b.shift_change) +
                    (a.scale_before || a.scale_exact ? 0 : (t.k_c + u) * std::fabs(row.max_x));
  t.pi_constant = a.exp_error + 2 * u + (a.ratio ? b.sum_error + a.division : b.log_s_error + of_lse);
  t.pi_log = a.ratio ? 0 : u;
  t.log_constant = b.log_s_error + of_lse;
  t.argument_roundings = a.argument_roundings;
  t.recompute_same_bits = a.recompute_same_bits;
  t.lse_growth = b.lse_growth;
  t.lse_change = b.lse_change;
  t.shift_change = b.shift_change;
  t.others_slack = 0x1p-50 * b.lse_growth;
  t.entropy_error = b.entropy_error;
  t.phi = a.exp_underflow;
  t.exponent_free = !(a.ratio && a.recompute_same_bits);
  t.exponent_shift = ExponentShift(b, a) + of_lse;
  t.widest = Widest(row, b, a, up) * std::exp(std::min(88.0, LargestExponent(row, b, a)));
  t.result_underflow = a.result_underflow;
  t.d_logits_lost = a.d_logits_lost;
  t.d_logits_u = a.d_logits.u;
  t.d_logits_eta = a.d_logits.eta;
  t.d_logits_largest = a.d_logits.largest;
  return t;
}

}  // namespace plumbline::oracle
