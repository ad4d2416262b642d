// SPDX-License-Identifier: Apache-2.0
//
// What the baselines of a contract make of a problem: its rows in full, its gradients in some columns.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/baseline/family.h"
#include "fuzz/baseline/softmax.h"
#include "kernel/problem.h"
#include "oracle/budget/inputs.h"

namespace plumbline::fuzz {

// The elements that are compared. All indices ascend.
struct Places {
  std::vector<int64_t> rows;            // of the problem, each of RowKind::kNormal
  std::vector<int64_t> hidden_columns;  // of grad_hidden; in groups of kProductColumns neighbours
  std::vector<int64_t> weight_rows;     // of grad_weight; empty unless `rows` are all that take part
};

struct SimulationOptions {
  int threads = 1;
  const std::atomic<bool>* interrupt = nullptr;  // may be null
  // The dtypes that gradients are rounded to at the end; absent: that gradient is not computed.
  std::optional<kernel::DType> grad_hidden, grad_weight;
};

struct Simulated {
  std::vector<RowForward> forward;  // [rows]
  std::vector<float> grad_hidden;   // [rows][hidden_columns]
  std::vector<float> grad_weight;   // [weight_rows][H]
};

// Returns one for each baseline; empty if it was interrupted. The problem must be in host memory, V and
// H above 0. Memory is 4 V rows bytes for the logits, and for each baseline where gradients are wanted.
std::vector<Simulated> Simulate(const kernel::Problem& problem, const oracle::Inputs& inputs,
                                const Family& family, const Places& places,
                                const SimulationOptions& options);

// Reads row i of a float matrix in host memory, widened.
void ReadRow(const kernel::ConstTensor& matrix, int64_t i, std::span<float> to);

}  // namespace plumbline::fuzz
