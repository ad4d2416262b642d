// SPDX-License-Identifier: Apache-2.0
//
// The error budget of one row: how far an implementation with the given arithmetic may be from the
// exact result, in logprob, entropy, lse and every d_logit. It is rigorous: no term is statistical and
// none is tuned. oracle/ERROR-BUDGET.md, section "The budget", derives every formula; names there and
// here agree.
//
// Bounds are absolute. They may be infinite, and then say nothing; they are never NaN.

#pragma once

#include <cstdint>
#include <limits>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/row.h"

namespace plumbline::oracle {

struct RowBudget {
  // The bounds of the outputs, each with its rounding to fp32.
  double logprob = 0, entropy = 0, lse = 0;

  // Quantities of the forward pass that the gradients' bounds use.
  double lse_growth = 0;     // E = sum of p (e^delta - 1), so that L = ln(1 + E)
  double lse_change = 0;     // L: the most that the logits' errors move lse
  double shift_change = 0;   // D: the most that they and the rounding of m move what is subtracted
  double log_change = 0;     // the most that they and the rounding of m move ln s
  double sum_error = 0;      // rho_s / (1 - rho_s)
  double log_s_error = 0;    // B_l
  double entropy_error = 0;  // B_H before the output's rounding
  double total_error = 0;    // B_1: what the sum of all p, as computed, is off by from 1
  // What the entropy is made of may be infinite: exp(x - lse), or sum e x.
  bool entropy_overflows = false;
};

// Sums over columns, with tau = t + delta and w' = p e^delta. Every rho follows from them.
struct Moments {
  double grown = 0;                                      // sum of p (e^delta - 1)
  double weight = 0;                                     // sum of w'
  double first = 0;                                      // sum of w' tau
  double second = 0;                                     // sum of w' tau^2
  double condition = 0;                                  // sum of |ln p + H| p (e^delta - 1)
  double spread = 0;                                     // sum of w' delta^2
  double abs_x = 0;                                      // sum of w' (|x| + delta)
  double gap = std::numeric_limits<double>::infinity();  // least t - delta
};

// Quantities of one column that the forward budget uses.
struct Change {
  double t = 0, delta = 0;
  double growth = 0;  // e^delta - 1
  double grown = 0;   // p (e^delta - 1), right where p underflows and e^delta does not
};

// The budget of a kFinite row from the moments of every column but the maximum's, the change of the
// maximum's column and, where logprob is finite, the change of the label's.
RowBudget BudgetForward(const Row& row, const Moments& others, const Change& max, const Change& label,
                        const Arithmetic& arithmetic);

// The same, computed from `all`, which holds every column of a kFinite row.
RowBudget BudgetForward(const Row& row, const Columns& all, const Arithmetic& arithmetic,
                        int64_t hidden_size);

// Upstream gradients of a row. g_error is the relative error of g itself (`mean` divides by n).
struct Upstream {
  double g = 0, k = 0, g_error = 0;
  bool drops_infinite_label = false;  // dz of a label whose logit is -inf is 0 (kLabelAtInfinity)
};

// Writes, for the columns given, which may be a part of the row, exact dz and the bound of dz as
// stored; both are +0 where z = -inf. Both arrays are as long as those of `columns`. Returns whether
// some dz may be infinite: beyond the dtype that it is stored in, or from an exponential that may
// overflow.
bool BudgetGradient(const Row& row, const Columns& columns, const RowBudget& budget,
                    const Arithmetic& arithmetic, int64_t hidden_size, const Upstream& upstream,
                    double* value, double* bound);

// Writes b + gain (|dz| + b), the error of a term of a gradient for each unit of its other operand;
// |dz| + b counts as at least `least` unless it is 0. count is a multiple of kColumnStep.
void BudgetTerms(const double* dz, const double* bound, double gain, double least, int64_t count,
                 double* out);

}  // namespace plumbline::oracle
