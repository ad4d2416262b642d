// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a row, beside its columns, that the budget of d_logits uses (ERROR-BUDGET.md,
// "Gradients"). The host's vectors (oracle/budget/budget.cc) and a device's threads (oracle/cuda) take
// the same ones. Plain data.

#ifndef PLUMBLINE_ORACLE_BUDGET_GRADIENT_TERMS_H_
#define PLUMBLINE_ORACLE_BUDGET_GRADIENT_TERMS_H_

#include <cstdint>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/row.h"

namespace plumbline::oracle {

struct GradientTerms {
  int64_t label = 0, argmax = 0;
  double u = 0;
  double g = 0, k = 0, g_error = 0;
  double inverse = 1;  // 1/T
  double entropy = 0;
  double label_complement = 0;  // 1 - p_y
  double max_complement = 0;    // 1 - p of the maximum

  // pi = P(v) + k_c |x| + pi_constant + k_a t' + pi_log |ln p|, and likewise for ln p.
  double k_c = 0;
  double pi_constant = 0, pi_log = 0, log_constant = 0;
  double argument_roundings = 0;
  bool recompute_same_bits = false;
  double lse_growth = 0, lse_change = 0, shift_change = 0;
  double others_slack = 0;
  double entropy_error = 0;
  double phi = 0;  // absolute: underflow of the exponential

  // Backward's exponents may be positive unless it sees forward's very logits and maximum.
  bool exponent_free = false;
  double exponent_shift = 0;
  double widest = 0;  // no dz is farther from 0 than this plus its bound

  double result_underflow = 0;
  double d_logits_lost = 0;
  double d_logits_u = 0, d_logits_eta = 0, d_logits_largest = 0;
};

GradientTerms GradientTermsOf(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
                              const Upstream& upstream);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_BUDGET_GRADIENT_TERMS_H_
