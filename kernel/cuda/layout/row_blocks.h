// SPDX-License-Identifier: Apache-2.0
//
// Blocks of rows in gradients in forward (kernel/OPERATION.md, "Blocks of rows"): where rows are many,
// one block of them after another goes through both passes, with all of its exponents kept. A block is
// a problem of its own, of views. What goes on from block to block are the sums of grad_weight, in
// fp32, and logprob of all rows, for the loss.
//
// The division decides bits of grad_weight where rows are dropped. So it is a rule on shapes, dtype,
// results and execution, the same for every device.

#pragma once

#include <cstdint>

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"

namespace plumbline::kernel::cuda {

// The rows [first, …) of a problem of `all` rows.
struct RowRange {
  int64_t first = 0, all = 0;

  // Returns whether so many rows are the last ones.
  bool EndsAfter(int64_t rows) const { return first + rows == all; }
};

// Blocks begin at multiples of this, so that chains of grad_weight have the steps of one product's
// where no row is dropped.
inline constexpr int64_t kRowBlockStep = 64;

// Returns the rows of every block but the last, which may have fewer: all rows, where they are one
// block, else a multiple of kRowBlockStep.
int64_t RowsOfBlock(const Problem& problem, const Results& results, const Execution& execution);

// Return the rows [first, first + rows) of a problem or of its results, as views. What belongs to no
// row stays as it is.
Problem RowsOf(const Problem& problem, int64_t first, int64_t rows);
Results RowsOf(const Results& results, int64_t first, int64_t rows);

}  // namespace plumbline::kernel::cuda
