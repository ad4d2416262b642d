// SPDX-License-Identifier: Apache-2.0
//
// What a row's probabilities and their logarithms err as backward forms them, for sums over the row
// (ERROR-BUDGET.md, "Entropy of probabilities").

#pragma once

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/row.h"

namespace plumbline::oracle {

// e^(k y) - 1 <= LargeSlope(k) y for every exponent y of a weight that has not underflowed: y < 110.
// (e^(110 k) - 1)/(110 k) is convex in k, 1 at 0 and below 1 + 64 k at 2^-8 ("Large constants").
double LargeSlope(double k);

// k_c u where x and m are scaled apart, after the shift.
double ScaledApart(const Arithmetic& arithmetic);

// The errors of p and of ln p as backward forms them, with y = t' + l' no less than |ln p|.
struct ProbabilityErrors {
  double c_p = 0, k_p = 0;  // e^theta - 1 <= c_p + k_p y for the relative error of p
  double c_l = 0, k_l = 0;  // lambda <= c_l + k_l y for the absolute error of ln p
  double log = 0;           // l'
};
ProbabilityErrors ProbabilityErrorsOf(const Row& row, const RowBudget& budget,
                                      const Arithmetic& arithmetic);

// What the entropy loses where p and p ln p underflow in 16 bits. A p that is off by eta has
// p <= eta, of which p |ln p| is at most eta ln(1/eta), or |ln p| <= ln(1/eta).
double RoundedUnderflow(const Row& row, double c_l, double k_l, const Rounding& of);

}  // namespace plumbline::oracle
