// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/column_terms.h"

#include <algorithm>
#include <cmath>

#include "oracle/budget/overflow.h"
#include "oracle/defect.h"

namespace plumbline::oracle {

LogitTerms LogitTermsOf(const Arithmetic& a, int64_t hidden_size) {
  return {a.certificate, std::ldexp(1.0, static_cast<int>(a.certificate_lsb)), a.certificate_limit,
          a.dot_logit, (static_cast<double>(hidden_size) + 1) * a.eta};
}

RowTerms RowTermsOf(const Row& row, double hidden_lsb, const Arithmetic& a) {
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
  t.exponent_free = !(a.ratio && a.recompute_same_bits);
  t.exponent_shift = ExponentShift(b, a) + of_lse;
  t.factor_overflows = FactorOverflows(row, b, a, up);
  t.widest = Widest(row, b, a, up) * std::exp(std::min(88.0, LargestExponent(row, b, a)));
  return t;
}

}  // namespace plumbline::oracle
