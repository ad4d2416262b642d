// SPDX-License-Identifier: Apache-2.0
//
// Requirements of the forward outputs, from a row's values and budget (ERROR-BUDGET.md, "Sums" and
// "Vacuous and unspecified"; NON-FINITE.md).

#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "kernel/problem.h"
#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/inputs.h"
#include "oracle/budget/row.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// Elements that need no computation.
constexpr Element Zero() { return {Expect::kFinite, 0, 0, 0}; }
constexpr Element PlusZero() { return {Expect::kPlusZero, 0, 0, 0}; }
constexpr Element Ignored() { return {Expect::kIgnored, 0, 0, 0}; }
constexpr Element NotANumber() {
  return {Expect::kNaN, std::numeric_limits<double>::quiet_NaN(), 0, 0};
}
constexpr Element Unspecified() { return {Expect::kUnspecified, 0, 0, 0}; }

struct ForwardElements {
  Element logprob, entropy, lse;
};
// The elements of a row that is neither ignored nor invalid. radius_ratio is RadiusRatios::forward.
ForwardElements ForwardOf(const Row& row, const RowBudget& budget, double radius_ratio);

// A forward output or the loss as the contract has it written: rounded to the dtype declared for it.
Element Written(Output output, Element element, const Arithmetic& target);

// Returns what every element of grad_hidden's row i must be where the row takes no part in the
// gradients; nothing where it does. `overflows` says that some d_logit may be infinite. Not for ignored
// or invalid rows.
std::optional<Element> ConstantGradient(const Inputs& inputs, int64_t i, const Row& row,
                                        bool overflows);

// The loss. Every row that is not ignored is added, in the order of the rows: Add for a valid one,
// AddInvalid for an invalid one.
class LossSum {
 public:
  void Add(const ForwardElements& row);
  void AddInvalid() { nan_ = true; }
  Element Finish(const Inputs& inputs, kernel::Reduction reduction, const Arithmetic& target,
                 double radius_ratio) const;

 private:
  double sum_ = 0, magnitudes_ = 0, bound_ = 0;
  bool nan_ = false, infinite_ = false, unspecified_ = false;
};

}  // namespace plumbline::oracle
