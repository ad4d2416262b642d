// SPDX-License-Identifier: Apache-2.0
//
// Turns the sums over a gradient's products into requirements: each element's bound, and whether it is
// finite, NaN, vacuous or unspecified (ERROR-BUDGET.md, "Gradients" and "Vacuous and unspecified").

#pragma once

#include <cstdint>

#include "oracle/budget/arithmetic.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// The requirement of one element. It is vacuous where bound or radius reaches `range`, the width of
// what the output can be.
Element Bounded(double value, double radius, double bound, double range);

// The errors with which the target forms and stores the sums of a gradient's products.
struct GradientSum {
  double underflow = 0;     // absolute error of the products and sums
  double radius_ratio = 0;  // < 1, as in ElementRow
  Rounding rounding;        // of the output's dtype
  bool rounded = false;     // ... which is narrower than fp32
  double largest_kept = 0;  // of the dtype that the sums are accumulated in
};
// `length` is the number of products: the vocabulary for grad_hidden, for grad_weight the rows that
// take part.
GradientSum GradientSumOf(Output output, kernel::DType dtype, int64_t length, const Arithmetic& target,
                          const RadiusRatios& ratios);

// The relative error of such a sum, with what accumulating across chunks in 16 bits adds.
double GradientGain(Output output, const Arithmetic& target);

struct GradientRow {
  const double* value;  // exact sums of products
  double* bound;  // in: bounds of their errors, 0 where every product is exactly 0; out: the elements'
                  // bounds
  const double* range;         // the width of what each element can be
  Expect* expect;              // out
  int64_t count;               // arrays are padded to a multiple of kColumnStep
  double infinite_limit = -1;  // as for InfiniteElement
};

// The requirement of an element whose exact value is infinite: a product of dz, which is not 0, and an
// infinite weight. `range` is the width of the finite terms, and infinite_limit the largest that their
// partial sums may become, or negative where a kernel may have 0 for dz, whose product is NaN.
constexpr Expect InfiniteElement(double value, double range, double infinite_limit) {
  if (!(range <= infinite_limit)) return Expect::kUnspecified;
  return value > 0 ? Expect::kPlusInf : Expect::kMinusInf;
}

// Finishes one row in place. A sum whose terms may pass `limit`, the largest that partial sums may
// become, is unspecified. largest_kept / limit is how much larger than exact a computed sum may be. A
// gradient that is farther from 0 than its dtype can resolve still shows, so no range counts as below 4
// (underflow + rounding.eta).
void FinishGradient(const GradientRow& row, double limit, const GradientSum& sum);

}  // namespace plumbline::oracle
