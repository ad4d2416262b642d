// SPDX-License-Identifier: Apache-2.0
//
// In a dimension where all rows of weight have the same value grad_hidden is that value times the sum
// of the row's d_logits, which is 0 (CONSISTENCY.md, "Equal weights").

#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz/base/text.h"
#include "fuzz/consistency/context.h"
#include "fuzz/consistency/gradient_sums.h"

namespace plumbline::fuzz {

void CheckEqualWeights(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  const Operands& o = c.operands;
  if (!c.results.grad_hidden || o.equal_dimensions.empty() || c.problem.vocab() < 2) return;
  if (!FitsInSums(c)) return;
  const kernel::ConstTensor got = kernel::AsConst(*c.results.grad_hidden);
  ConsistencyCheck check{.name = "equal-weights", .output = oracle::Output::kGradHidden};
  for (int64_t i = 0; i < c.problem.rows(); ++i) {
    const RowErrors& e = c.rows[static_cast<size_t>(i)];
    if (c.in().LeftOut(i) || !e.gradient) continue;
    const oracle::Arithmetic& a = c.At(i);
    const GradientErrors of = GradientErrorsOf(c, oracle::Output::kGradHidden, a);
    const double columns = static_cast<double>(c.problem.vocab());
    const double sum = e.d_logits + of.gain * (e.magnitude + e.d_logits + columns * a.least_operand);
    for (size_t k = 0; k < o.equal_dimensions.size(); ++k) {
      const double weight = std::fabs(o.equal_value[k]);
      if (weight == 0) continue;
      const double value = oracle::ReadElement(got, i, o.equal_dimensions[k]);
      if (!std::isfinite(value)) continue;
      const double flushed =
          a.flush_operands && weight < 0x1p-126 ? weight * (e.magnitude + 2 * e.d_logits) : 0;
      const double tolerance = std::max(weight, a.least_operand) * sum + of.underflow + flushed +
                               of.rounding * std::fabs(value) + of.rounding_eta;
      Compare(std::fabs(value), tolerance * (1 + 0x1p-20), std::numeric_limits<double>::infinity(),
              weight * e.magnitude, i, o.equal_dimensions[k], &check);
    }
  }
  if (IsBroken(check)) {
    check.what = Text(
        "grad_hidden[%lld, %lld] is %s, and 0 is required: all rows of weight have the "
        "same value in that column, and a row's d_logits add up to 0",
        c.NameOf(check.row), static_cast<long long>(check.column),
        Number(oracle::ReadElement(got, check.row, check.column)).c_str());
  }
  c.report.checks.push_back(std::move(check));
}

}  // namespace plumbline::fuzz
