// SPDX-License-Identifier: Apache-2.0
//
// The error budget of one row: how far an implementation with the given arithmetic may be from the
// exact result, for logprob, entropy, lse and every d_logit. Rigorous: no term is statistical, none is
// tuned. Every formula is derived in oracle/ERROR-BUDGET.md, section "The budget"; names there and here
// agree.
//
// Bounds may be infinite (then they say nothing); they are never NaN.

#ifndef PLUMBLINE_ORACLE_BUDGET_H_
#define PLUMBLINE_ORACLE_BUDGET_H_

#include <cstdint>

#include "oracle/arithmetic.h"
#include "oracle/row.h"

namespace plumbline::oracle {

struct RowBudget {
  // Outputs, each with its rounding to fp32.
  double logprob = 0, entropy = 0, lse = 0;

  // What the gradients need of the forward pass.
  double lse_growth = 0;     // E = sum of p (e^delta - 1), so that L = ln(1 + E)
  double lse_change = 0;     // L: the logits' errors move lse by at most this
  double shift_change = 0;   // D: they and the rounding of m move what is subtracted by at most this
  double sum_error = 0;      // rho_s / (1 - rho_s)
  double log_s_error = 0;    // B_l
  double entropy_error = 0;  // B_H before the output's rounding
};

// `all` holds every column of a kFinite row.
RowBudget BudgetForward(const Row& row, const Columns& all, const Arithmetic& arithmetic,
                        int64_t hidden_size);

// Upstream gradients of a row; g_error is the relative error of g itself (`mean` divides by n).
struct Upstream {
  double g = 0, k = 0, g_error = 0;
};

// For the columns given, which may be a part of the row: exact dz and the bound of dz as stored, +0
// both where z = -inf; both arrays as long as those of `columns`. Returns whether some dz may be
// infinite: beyond the dtype that it is stored in, or from an exponential that may overflow.
bool BudgetGradient(const Row& row, const Columns& columns, const RowBudget& budget,
                    const Arithmetic& arithmetic, int64_t hidden_size, const Upstream& upstream,
                    double* value, double* bound);

// No d_logit is farther from 0 than this and its bound.
double Widest(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
              const Upstream& upstream);

// Backward's exponents are at most this: positive only where they do not see forward's very logits and
// maximum. Each p that is computed, and with it Widest, may be e^that times too large.
double LargestExponent(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic);

// False: BudgetGradient would return false for every column of the row. Cheap.
bool MayBeInfinite(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
                   const Upstream& upstream);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_BUDGET_H_
