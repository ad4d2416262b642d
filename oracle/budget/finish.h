// SPDX-License-Identifier: Apache-2.0
//
// Turns the sums over a gradient's products into requirements: each element's bound, and whether it is
// finite, NaN, vacuous or unspecified (ERROR-BUDGET.md, "Gradients" and "Vacuous and unspecified").

#ifndef PLUMBLINE_ORACLE_BUDGET_FINISH_H_
#define PLUMBLINE_ORACLE_BUDGET_FINISH_H_

#include <cstdint>

#include "oracle/budget/arithmetic.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// The requirement of one element. It is vacuous where bound or radius reaches `range`, the width of
// what the output can be.
Element Bounded(double value, double radius, double bound, double range);

struct GradientRow {
  const double* value;  // exact sums of products
  double* bound;  // in: bounds of their errors, 0 where every product is exactly 0; out: the elements'
                  // bounds
  const double* range;  // the width of what each element can be
  Expect* expect;       // out
  int64_t count;        // arrays are padded to a multiple of kColumnStep
};

// Finishes one row in place. A sum whose terms may pass `accumulator`, the largest number that they are
// added in, is unspecified. underflow is the absolute error of the products and sums. A gradient that
// is farther from 0 than its dtype can resolve still shows, so no range counts as below 4 (underflow +
// rounding.eta). radius_ratio < 1 is as in ElementRow. `rounded` says that the output's dtype is
// narrower than fp32.
void FinishGradient(const GradientRow& row, double accumulator, double underflow, double radius_ratio,
                    const Rounding& rounding, bool rounded);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_BUDGET_FINISH_H_
