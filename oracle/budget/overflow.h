// SPDX-License-Identifier: Apache-2.0
//
// Decides where an honest kernel's gradient may be infinite or NaN though the exact one is finite, so
// that nothing can be required of it (ERROR-BUDGET.md, "Vacuous and unspecified"). W there is Widest
// here, X is LargestExponent.

#pragma once

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/row.h"

namespace plumbline::oracle {

// The most by which backward's exponent of a column may exceed delta - t.
double ExponentShift(const RowBudget& budget, const Arithmetic& arithmetic);

// No d_logit is farther from 0 than this plus its bound.
double Widest(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
              const Upstream& upstream);

// Backward's exponents are at most this. It is positive only where they do not see forward's very
// logits and maximum. Each computed p, and with it Widest, may be e^LargestExponent times too large.
double LargestExponent(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic);

// The largest that the exact magnitudes of a gradient's terms may sum to, so that computed partial sums
// fit: each p may be too large, and operands and additions are rounded.
double PartialSumLimit(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic);

// Whether what the row's d_logits have in common may be infinite: g/T or k/T, which a kernel may form
// before it multiplies by a probability, or the entropy.
bool FactorOverflows(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
                     const Upstream& upstream);

// A row that is finite but outside of the contract's domain: a tile's rounded maximum may be off by
// more than the range of exp, or a partial sum or a log-probability that is kept in 16 bits may be
// infinite.
bool OutsideOfContract(const Row& row, const Arithmetic& arithmetic);

// False if BudgetGradient would return false for every column of the row. Cheap.
bool MayBeInfinite(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
                   const Upstream& upstream);

}  // namespace plumbline::oracle
