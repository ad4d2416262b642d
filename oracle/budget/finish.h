// SPDX-License-Identifier: Apache-2.0
//
// From the sums over a gradient's products to what each element must be: its bound, and whether it is
// finite, NaN, vacuous or unspecified (ERROR-BUDGET.md, "Gradients" and "Vacuous and unspecified").

#ifndef PLUMBLINE_ORACLE_BUDGET_FINISH_H_
#define PLUMBLINE_ORACLE_BUDGET_FINISH_H_

#include <cstdint>

#include "oracle/budget/arithmetic.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// An element; vacuous where its bound or radius reaches `range`, the width of what the output can be.
Element Bounded(double value, double radius, double bound, double range);

struct GradientRow {
  const double* value;  // exact sums of products
  double* bound;  // in: what bounds their errors, 0 where every product is exactly 0; out: the bound
  const double* range;  // the width of what each element can be
  Expect* expect;       // out
  int64_t count;        // arrays are padded to a multiple of kColumnStep
};

// A sum whose terms may pass `accumulator`, the largest number that they are added in, is unspecified.
// underflow: absolute error of the products and sums. A gradient that is farther from 0 than its dtype
// can resolve still shows, so no range is below 4 (underflow + rounding.eta). radius_ratio < 1 as in
// ElementRow. `rounded`: the output's dtype is narrower than fp32.
void FinishGradient(const GradientRow& row, double accumulator, double underflow, double radius_ratio,
                    const Rounding& rounding, bool rounded);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_BUDGET_FINISH_H_
