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
#include <vector>

#include "oracle/arithmetic.h"
#include "oracle/row.h"

namespace plumbline::oracle {

struct RowBudget {
  // Outputs, each with its rounding to fp32.
  double logprob = 0, entropy = 0, lse = 0;

  // What the gradients need of the forward pass.
  std::vector<double> delta;   // [V] |x_computed - x| <= delta
  std::vector<double> growth;  // [V] e^delta - 1
  std::vector<double> grown;   // [V] p (e^delta - 1), right where p underflows and e^delta does not
  double lse_growth = 0;       // E = sum of grown, so that L = ln(1 + E)
  double lse_change = 0;       // L: the logits' errors move lse by at most this
  double shift_change = 0;     // D: they move the maximum by at most this
  double sum_error = 0;        // rho_s / (1 - rho_s)
  double log_s_error = 0;      // B_l
  double entropy_error = 0;    // B_H before the output's rounding

  // Set by BudgetGradient.
  std::vector<double> d_logits;        // [V] of dz as stored
  std::vector<double> d_logits_value;  // [V] exact dz
  bool d_logits_overflow = false;      // some dz may be beyond the dtype that it is stored in
};

// The row must be kFinite. Reuses the memory of *budget.
void BudgetForward(const Row& row, const Arithmetic& arithmetic, int64_t hidden_size,
                   RowBudget* budget);

// After BudgetForward, for upstream gradients g and k. `g_error` is the relative error of g itself
// (mean reduction divides by n).
void BudgetGradient(const Row& row, const Arithmetic& arithmetic, double g, double k, double g_error,
                    RowBudget* budget);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_BUDGET_H_
