// SPDX-License-Identifier: Apache-2.0
//
// What the baselines of a contract make of a problem: its rows in full, its gradients in some columns.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

// Returns `count` of these, evenly spread and always with the first; all if there are no more.
std::vector<int64_t> Spread(const std::vector<int64_t>& from, int64_t count);

struct SimulationOptions {
  int threads = 1;
  const std::atomic<bool>* interrupt = nullptr;  // may be null
  // The dtypes that gradients are rounded to at the end; absent: that gradient is not computed.
  std::optional<kernel::DType> grad_hidden, grad_weight;
};

// In float what a baseline computes, in double what exact arithmetic makes of its shortcuts.
template <class Real>
struct Simulated {
  std::vector<RowForward<Real>> forward;  // [rows]
  std::vector<int64_t> top;               // [rows]: the column of the largest logit
  std::vector<Real> grad_hidden;          // [rows][hidden_columns]
  std::vector<Real> grad_weight;          // [weight_rows][H]
};

// The logits of each dot product are computed once and kept: 4 V rows bytes in float, 8 in double. What
// it refers to must outlive it. The problem must be in host memory, V and H above 0.
template <class Real>
class Simulation {
 public:
  Simulation(const kernel::Problem& problem, const oracle::Inputs& inputs, const Places& places,
             const SimulationOptions& options);

  // Returns one for each baseline, the gradients rounded to their dtypes in float; empty if it was
  // interrupted. Takes as much memory as the logits for each baseline, if gradients are wanted.
  std::vector<Simulated<Real>> Run(const std::vector<Baseline>& baselines);
  // [rows][V], before any shortcut; valid as long as this.
  const std::vector<Real>& LogitsOf(const Baseline& baseline);

 private:
  struct Logits {
    Dot dot;
    int operand_bits;
    std::vector<Real> z;  // [rows][V]
  };
  int64_t rows() const { return static_cast<int64_t>(places_.rows.size()); }
  bool Interrupted() const {
    return options_.interrupt != nullptr && options_.interrupt->load(std::memory_order_relaxed);
  }
  RowScalars ScalarsOf(size_t r) const;
  std::vector<Real> Forward(const Baseline& baseline, Simulated<Real>* out);
  void Hidden(const std::vector<Baseline>& baselines, const std::vector<std::vector<Real>>& d,
              std::vector<Simulated<Real>>* all) const;
  void Weight(const Baseline& baseline, const std::vector<Real>& d, Simulated<Real>* out) const;

  const kernel::Problem& problem_;
  const oracle::Inputs& inputs_;
  const Places& places_;
  const SimulationOptions options_;
  std::vector<float> hidden_;  // [rows][H]
  std::vector<std::unique_ptr<Logits>> logits_;
};

// Reads row i of a float matrix in host memory, widened.
void ReadRow(const kernel::ConstTensor& matrix, int64_t i, std::span<float> to);

}  // namespace plumbline::fuzz
