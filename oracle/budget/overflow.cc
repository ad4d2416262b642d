// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/overflow.h"

#include <cmath>

namespace plumbline::oracle {

double ExponentShift(const RowBudget& b, const Arithmetic& a) {
  // e/s: s itself may be as small as e^-(L + D). exp(x - lse): lse may be off by L + B_l.
  return b.lse_change + b.shift_change + (a.ratio ? b.shift_change : b.log_s_error);
}

double Widest(const Row& row, const RowBudget& b, const Arithmetic& a, const Upstream& up) {
  if (up.k == 0) return std::fabs(up.g) * row.inverse;  // whatever is known of the entropy
  // An entropy that cancels may be far off what an entropy can be.
  const double entropy = a.plain_entropy ? b.entropy_error : 0;
  return (std::fabs(up.g) +
          std::fabs(up.k) * (0.5 + std::log(static_cast<double>(row.vocab)) + entropy)) *
         row.inverse;
}

double LargestExponent(const Row& row, const RowBudget& b, const Arithmetic& a) {
  if (a.ratio && a.recompute_same_bits) return 0;
  const double exponent = b.shift_change + ExponentShift(b, a);
  if (a.ratio) return exponent;
  // Over every column |x| - t <= |m|, so the roundings of the scale are paid with |m| and t.
  return exponent + 4 * (a.u + a.scale_roundings) * std::fabs(row.max_x) +
         4 * a.u * (std::fabs(row.lse) + b.lse_change);
}

bool MayBeInfinite(const Row& row, const RowBudget& b, const Arithmetic& a, const Upstream& up) {
  const double exponent = LargestExponent(row, b, a);
  if (!(exponent <= 88)) return true;
  return 2 * Widest(row, b, a, up) * std::exp(exponent) > a.d_logits.largest;
}

}  // namespace plumbline::oracle
