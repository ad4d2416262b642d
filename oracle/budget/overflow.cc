// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/overflow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/defect.h"

namespace plumbline::oracle {

double ExponentShift(const RowBudget& b, const Arithmetic& a) {
  // For e/s, s itself may be as small as e^-(L + D). For exp(x - lse), lse may be off by L + B_l.
  return b.lse_change + b.shift_change + (a.ratio ? b.shift_change : b.log_s_error);
}

double Widest(const Row& row, const RowBudget& b, const Arithmetic& a, const Upstream& up) {
  if (up.k == 0)
    return std::fabs(up.g) * row.inverse;  // not 0 * infinity where nothing is known of the entropy
  // A plain entropy cancels, and p need not add up to 1, so it may be farther from the truth than any
  // entropy is large.
  const double entropy = (a.plain_entropy || a.entropy_of_probabilities ? b.entropy_error : 0) +
                         (a.log_softmax_backward ? b.total_error : 0);
  return (std::fabs(up.g) +
          std::fabs(up.k) * (0.5 + std::log(static_cast<double>(row.vocab)) + entropy)) *
         row.inverse;
}

double LargestExponent(const Row& row, const RowBudget& b, const Arithmetic& a) {
  if (a.ratio && a.recompute_same_bits) return 0;
  const double exponent = b.shift_change + ExponentShift(b, a);
  if (a.ratio) return exponent;
  // In every column |x| - t <= |m|, so |m| and t pay for the roundings of the scale.
  // A rounding of ln p makes it larger by u_l of itself.
  return (exponent + 4 * (a.u + a.scale_roundings) * std::fabs(row.max_x) +
          4 * a.u * (std::fabs(row.lse) + b.lse_change)) *
         (1 + a.log_probs.u);
}

double PartialSumLimit(const Row& row, const RowBudget& b, const Arithmetic& a) {
  // Rounded operands grow by no more than 25/16 (kMostInputRounding), and no addition errs by more than
  // its smaller operand, so that sums grow by no more than 2. 2^-8 pays for the errors of d_logits.
  double growth = (1 + 0x1p-8) * std::min(4.0, 1 + std::max(a.dot_grad_hidden, a.dot_grad_weight));
  const double chunks = std::max(a.chunks_hidden, a.chunks_weight);
  if (chunks > 0) growth *= std::min(2.0, std::exp(1.01 * (chunks + 1) * a.accumulator.u));
  return std::min(a.accumulator.largest, a.largest_partial) * std::exp(-LargestExponent(row, b, a)) /
         growth;
}

bool FactorOverflows(const Row& row, const RowBudget& b, const Arithmetic& a, const Upstream& up) {
  if (up.k != 0 && b.entropy_overflows) return true;
  if constexpr (kPlanted == OracleDefect::kUpstreamNeverOverflows) return false;
  const double g = std::fabs(up.g) * (1 + a.upstream_division), k = std::fabs(up.k);
  // sum G, "Gradients of log-probabilities"
  const double total = 1 + b.total_error + row.entropy + 3 * b.entropy_error;
  const bool stored = k > 0 || a.probabilities.u > 0;  // G, or the part of it that is not g itself
  const double size = g + (k > 0 ? k * total : 0);     // not 0 times infinity
  if (a.log_softmax_backward && stored && !(2 * size <= a.largest_log_gradient)) return true;
  const double scaled = std::max(g, k) * row.inverse * (1 + a.temperature_division);
  return scaled > std::numeric_limits<float>::max();
}

bool OutsideOfContract(const Row& row, const Arithmetic& a) {
  if (a.shift_rounding * row.max_abs_x > 40) return true;
  if (!a.RoundsLogits() && row.max_sum > a.largest_partial / 2) return true;
  const double vocab = static_cast<double>(row.vocab);
  if (a.softmax_sum.u > 0 && 2 * vocab > a.softmax_sum.largest) return true;  // s may be V
  // ln p of 0 in the dtype that it is kept in: p ln p would be NaN.
  return a.log_probs.u > 0 && 2 * row.max_abs_x + std::log(vocab) + 1 > a.log_probs.largest / 2;
}

bool MayBeInfinite(const Row& row, const RowBudget& b, const Arithmetic& a, const Upstream& up) {
  const double exponent = LargestExponent(row, b, a);
  if (!(exponent <= 88) || FactorOverflows(row, b, a, up)) return true;
  const double widest = 2 * Widest(row, b, a, up) * std::exp(exponent);
  if (a.dx.u > 0 && widest * row.temperature > a.dx.largest) return true;
  return widest > a.d_logits.largest;
}

}  // namespace plumbline::oracle
