// SPDX-License-Identifier: Apache-2.0
//
// The sweep computes the fp64 value, its radius and the contract's bound of every output element,
// forward and backward, in one blocked pass over the problem. oracle/ERROR-BUDGET.md derives the
// formulas.
//
// Elements are handed out row by row and not kept, so a problem may have any shape. Memory is O(threads
// N*H + V) doubles plus `memory` bytes, never N*V or V*H. The weight is read where it lies (it may be a
// mapped file): once for as many rows as have their logits in `memory`, and once or twice more for
// gradients.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/verdict/element_row.h"

namespace plumbline::oracle {

struct SweepOptions {
  int threads = 1;
  size_t memory = size_t{256} << 20;  // bytes for logits that are kept from forward to backward
  // The divisor of `mean`, where the problem is a part of a larger one.
  std::optional<int64_t> counted_rows;
  // The label's part of both gradients is 0 where its own logit is -inf: the alternative of
  // Convention::kLabelAtInfinity.
  bool drops_infinite_label = false;
  // Read between blocks of rows and columns. It must not be cleared during the sweep. May be null.
  const std::atomic<bool>* interrupt = nullptr;

  bool Interrupted() const {
    return interrupt != nullptr && interrupt->load(std::memory_order_relaxed);
  }
};

struct SweepResult {
  int64_t first_invalid_row = -1;
  bool interrupted = false;     // some rows were never handed over
  bool infinite_label = false;  // a row that takes part in the gradients has its label's logit at -inf
};

// Sweeps over every output present in `wanted`, whose data is not read; dtypes decide the output's
// rounding. The problem must be in host memory and have passed the operator's own argument checks.
SweepResult Sweep(const kernel::Problem& problem, const kernel::Results& wanted,
                  const Contract& contract, const SweepOptions& options, ElementSink* sink);

}  // namespace plumbline::oracle
