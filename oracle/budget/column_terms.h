// SPDX-License-Identifier: Apache-2.0
//
// The numbers, beside a column's own, from which its bounds are made
// (oracle/budget/forward_bound-inl.h, gradient_bound-inl.h). The host's vectors
// (oracle/budget/budget.cc) and a device's threads (oracle/cuda) take the same ones. Plain data.

#pragma once

#include <cstdint>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/row.h"

namespace plumbline::oracle {

// Numbers that all rows of a problem share.
struct LogitTerms {
  bool certificate = false;
  double least_certified = 0, certificate_limit = 0;
  double dot = 0, underflow = 0;
};
LogitTerms LogitTermsOf(const Arithmetic& arithmetic, int64_t hidden_size);

// A row, whose entropy and sums are read only once it is finished.
struct RowTerms {
  Row row;
  double hidden_lsb = 0;
  double scale = 0, before = 0;  // delta = scale * B_z + before * |x|
};
RowTerms RowTermsOf(const Row& row, double hidden_lsb, const Arithmetic& arithmetic);

// The d_logit of a label whose logit is -inf, where p is exactly 0 and dz = g / T. All is 0 where the
// label's logit is finite, or g is 0.
struct InfiniteLabel {
  double value = 0, bound = 0;
  bool overflow = false;  // dz may be infinite
  // Whether no kernel of the contract has 0 for dz. The product of dz and an infinite weight is then
  // infinite, and never NaN.
  bool Moves() const { return value > bound || -value > bound; }
};
// mu, what exp(x - lse) adds to the errors of ln s, and the most that ln s may be: exponents x - lse
// are at most t' plus this from 0.
double LseError(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic);
double LargestLog(const Row& row, const RowBudget& budget);

// The numbers of a row that the budget of its d_logits uses (ERROR-BUDGET.md, "Gradients").
struct GradientTerms {
  Row row;
  RowBudget budget;
  Arithmetic target;
  Upstream upstream;

  // pi = P(v) + k_c (|x| + delta) + pi_constant + k_a (t' + exponent_log) + pi_log |ln p|, and likewise
  // for ln p.
  double k_c = 0;
  double exponent_log = 0;  // what exponents x - lse have more than t'
  double pi_constant = 0, pi_log = 0, log_constant = 0;

  double gradient_sum = 0;  // B_S: log_softmax_backward alone

  // Backward's exponents may be positive unless it sees forward's very logits and maximum.
  bool exponent_free = false;
  double exponent_shift = 0;
  double widest = 0;              // no dz is farther from 0 than this plus its bound
  bool factor_overflows = false;  // FactorOverflows (oracle/budget/overflow.h)
  InfiniteLabel infinite_label = {};
};
GradientTerms GradientTermsOf(const Row& row, const RowBudget& budget, const Arithmetic& arithmetic,
                              const Upstream& upstream);

}  // namespace plumbline::oracle
