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
  int64_t weight_elements = 0;          // of each of its rows, the first ones; 0: all
};

// What backward reads of a row's forward pass.
struct GivenForward {
  double lse = 0, entropy = 0;
  // The label's probability is exp of it: on confident rows 1 - p is lost in the label's logit less
  // lse.
  std::optional<double> logprob = {};
};

// Returns `count` of these, evenly spread and always with the first; all if there are no more.
std::vector<int64_t> Spread(const std::vector<int64_t>& from, int64_t count);

struct GivenErrors {
  double error = 0;     // of each given lse and entropy; 0: none is given
  bool labels = false;  // every row has its logprob
};

struct SimulationOptions {
  int threads = 1;
  const std::atomic<bool>* interrupt = nullptr;   // may be null
  bool grad_hidden = false, grad_weight = false;  // which gradients are computed
  // [rows], or empty. With them backward alone is simulated, of grad_weight: logits are those of the
  // columns in `weight_rows`, and the forward outputs are those that are given.
  std::vector<GivenForward> given = {};
  GivenErrors given_errors = {};
};

// To first order, what independent errors of a row's logits make of its outputs. A realised error is 0
// by chance, its expectation is not: where one row carries the errors of all, that decides.
struct RowSpread {
  // Root mean square over the columns of what two orders of a dot product differ by, / T; no less than
  // one rounding of the logits.
  double logits = 0;
  double lse = 0;      // sqrt(sum p^2): times `logits`, the error of lse
  double entropy = 0;  // sqrt(sum p^2 (ln p + H)^2), likewise
  // sqrt(sum p^2 c) and sqrt(sum p^2 (1 + |ln p + H|)^2 c), of d_logits for g = 1 and for k = 1, where
  // c = 1 - 2 p + sum p^2 if backward sees forward's logits, else c = 1 + sum p^2.
  double by_g = 0, by_k = 0;
};

// In float what a baseline computes, in double what exact arithmetic makes of its shortcuts.
template <class Real>
struct Simulated {
  std::vector<RowForward<Real>> forward;  // [rows]
  std::vector<int64_t> top;               // [rows]: the column of the largest logit
  std::vector<float> probability;         // [rows][weight_rows]
  std::vector<RowSpread> spread;          // [rows], by RunFamily, of the first baseline alone
  std::vector<Real> grad_hidden;          // [rows][hidden_columns]
  std::vector<Real> grad_weight;          // [weight_rows][elements]
};

// The logits of each dot product are computed once and kept: 4 V rows bytes in float, 8 in double. Rows
// of hidden are kept as well, 4 H rows bytes. What it refers to must outlive it. The problem must be in
// host memory, V and H above 0.
template <class Real>
class Simulation {
 public:
  Simulation(const kernel::Problem& problem, const oracle::Inputs& inputs, const Places& places,
             const SimulationOptions& options);

  // Returns one for each baseline, gradients as they are before they are rounded to their tensor's
  // dtype; empty if it was interrupted. Takes as much memory as the logits for each baseline, if
  // gradients are wanted.
  std::vector<Simulated<Real>> Run(const std::vector<Baseline>& baselines);
  // The same of all members of a family, for a Comparison: with the spread of the first.
  std::vector<Simulated<Real>> RunFamily(const std::vector<Baseline>& baselines);
  // What errors of logits make of the rows in a family, whose first member made `first`.
  template <class R>
  friend std::vector<RowSpread> SpreadOf(Simulation<R>* simulation,
                                         const std::vector<Baseline>& baselines,
                                         const Simulated<R>& first);
  // [rows][columns], before any shortcut; valid as long as this.
  const std::vector<Real>& LogitsOf(const Baseline& baseline);

 private:
  struct Logits {
    Dot dot;
    int operand_bits, hidden_bits;
    Accumulator sum;
    std::vector<Real> z;  // [rows][columns]
  };
  int64_t rows() const { return static_cast<int64_t>(places_.rows.size()); }
  bool given() const { return !options_.given.empty(); }
  // The columns of the vocabulary that have logits: all, or those in `weight_rows`.
  int64_t columns() const {
    return given() ? static_cast<int64_t>(places_.weight_rows.size()) : problem_.vocab();
  }
  // The row's logits with the label's one that gives its logprob, where there is one: `z` or `memory`.
  std::span<const Real> WithGivenLabel(size_t r, std::span<const Real> z, int64_t label,
                                       std::vector<Real>* memory) const;
  size_t ColumnOf(size_t weight_row) const {
    return given() ? weight_row : static_cast<size_t>(places_.weight_rows[weight_row]);
  }
  bool Interrupted() const {
    return options_.interrupt != nullptr && options_.interrupt->load(std::memory_order_relaxed);
  }
  RowScalars ScalarsOf(size_t r) const;
  void ForwardRow(const Baseline& baseline, std::span<const Real> z, const RowScalars& scalars,
                  size_t r, Simulated<Real>* out) const;
  // The logits of a block of rows, whose operands are `a`: [rows of the block][columns].
  void BlockLogits(const Baseline& baseline, const std::vector<Real>& a, std::span<Real> z) const;
  std::vector<Real> Forward(const Baseline& baseline, Simulated<Real>* out);
  // c = a b over the whole depth, through the accumulator. `rows`: the depth is that of places_.rows.
  void Product(const Baseline& baseline, const Accumulator& sum, bool rows,
               ProductBlock<Real> block) const;
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

// Reads row i of a float matrix in host memory, widened: as many elements as `to` has, from column
// `first` on.
void ReadRow(const kernel::ConstTensor& matrix, int64_t i, std::span<float> to, int64_t first = 0);

}  // namespace plumbline::fuzz
