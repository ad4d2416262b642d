// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/column_terms.h"

#include <algorithm>
#include <cmath>

#include "oracle/budget/overflow.h"

namespace plumbline::oracle {

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
  return t;
}

}  // namespace plumbline::oracle
