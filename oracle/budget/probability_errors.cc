// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/probability_errors.h"

#include <cmath>

#include "oracle/budget/column_terms.h"
#include "oracle/defect.h"

namespace plumbline::oracle {

double LargeSlope(double k) { return k <= 0x1p-8 ? k * (1 + 64 * k) : std::expm1(110 * k) / 110; }

double ScaledApart(const Arithmetic& a) { return a.scale_before ? 0 : a.scale_roundings; }

ProbabilityErrors ProbabilityErrorsOf(const Row& row, const RowBudget& b, const Arithmetic& a) {
  const double u = a.u, of_lse = LseError(row, b, a);
  const double k_c = a.ratio ? 0 : ScaledApart(a),
               scaled = k_c * (std::fabs(row.max_x) + b.shift_change);
  double common = a.exp_error + 2 * u + (a.ratio ? b.sum_error + a.division : b.log_s_error + of_lse);
  ProbabilityErrors errors;
  errors.c_l = b.log_s_error + of_lse + scaled;
  errors.k_l = a.argument_roundings + k_c + 4 * u;
  // "Kept log-probabilities": u_l (y + c_l + k_l y) + eta_l more of ln p, and of the exponent of p.
  const Rounding& kept = a.log_probs;
  const double kept_slope = kept.u > 0 ? kept.u * (1 + errors.k_l) : 0;
  if (kept.u > 0) {
    const double constant = kept.u * errors.c_l + kept.eta;
    common += constant;
    errors.c_l += constant;
    errors.k_l += kept_slope;
  }
  if constexpr (kPlanted == OracleDefect::kProbabilitiesAddUp) common = 0;
  errors.c_p = std::expm1(common + scaled);
  errors.k_p = LargeSlope(a.argument_roundings + k_c + (a.ratio ? 0 : u) + kept_slope);
  if (a.probabilities.u > 0) errors.c_p += a.probabilities.u * (1 + errors.c_p);
  errors.k_p *= 1 + errors.c_p;
  errors.log = LargestLog(row, b);
  return errors;
}

double RoundedUnderflow(const Row& row, double c_l, double k_l, const Rounding& of) {
  if (of.u == 0) return 0;
  const double log = 2 - std::log(of.eta);
  return static_cast<double>(row.vocab) * of.eta * (1 + log + c_l + k_l * log);
}

}  // namespace plumbline::oracle
