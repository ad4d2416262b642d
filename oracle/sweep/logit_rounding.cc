// SPDX-License-Identifier: Apache-2.0

#include "oracle/sweep/logit_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/budget/column_terms.h"
// One column at a time: the text that a device's threads have.
#define PLUMBLINE_FORMULAS_OF_DOUBLES
#include "oracle/budget/forward_bound-inl.h"

namespace plumbline::oracle {

LogitRounding::LogitRounding(const Operands& operands, const ArithmeticByTemperature& target,
                             const Inputs& inputs)
    : operands_(operands), target_(target), inputs_(inputs) {}

ExactSum LogitRounding::Exact(int64_t r, int64_t v) const {
  const int64_t h = operands_.hidden_size();
  std::vector<double> weight(static_cast<size_t>(RoundUp(h, kPanel)));
  LoadRow(operands_.weight(), v, h, 0, weight.data(), nullptr);
  return ExactDot({operands_.hidden(r), static_cast<size_t>(h)}, weight);
}

void LogitRounding::Round(int64_t first, int64_t begin, int64_t end, double* flushable, double* z,
                          double* abs_sum, int64_t stride) const {
  if (!target_.any.RoundsLogits()) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t h = operands_.hidden_size(), columns = std::min(kPanel, operands_.vocab() - first);
  const double reference = ReferenceGamma(h);
  for (int64_t r = begin; r < end; ++r) {
    const double temperature = inputs_.temperature[static_cast<size_t>(operands_.problem_row(r))];
    const Arithmetic& target = target_.At(temperature);
    const LogitSteps steps = StepsOf(target, temperature);
    const LogitTerms terms = UnroundedTermsOf(target, h);
    RowTerms row;
    row.hidden_lsb = operands_.hidden_lsb(r);
    for (int64_t v = 0; v < columns; ++v) {
      const int64_t at = (r - begin) * stride + v;
      if (!std::isfinite(z[at])) continue;
      double bound = cuda::LogitBound<double>(row, terms, abs_sum[at], operands_.weight_lsb(first)[v]);
      if (flushable != nullptr) bound += flushable[at];
      if (!steps.Specified(abs_sum[at])) {  // S is replaced below
        abs_sum[at] = kInfinity;
        continue;
      }
      const double error = bound == 0 ? 0 : reference * abs_sum[at];
      const RoundedLogit rounded =
          RoundLogit(steps, {z[at], error, bound}, [&] { return Exact(r, first + v); });
      if (std::isfinite(rounded.bound)) z[at] = rounded.value;
      abs_sum[at] = rounded.bound;
    }
    if (flushable != nullptr) std::fill_n(flushable + (r - begin) * stride, kPanel, 0.0);
  }
}

}  // namespace plumbline::oracle
