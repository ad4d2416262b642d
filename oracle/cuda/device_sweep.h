// SPDX-License-Identifier: Apache-2.0
//
// The oracle on a device (oracle/cuda/device_oracle.h) for one problem. Rows are taken in blocks, and
// each block has its logits, rows and budgets formed, then its gradients by chunks of the vocabulary.
// The host's code turns a row's sums into values and bounds (oracle/budget/row.h, budget.h,
// forward_elements.h); the device does what is of size N V or larger.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/problem.h"
#include "oracle/budget/arithmetic.h"
#include "oracle/budget/forward_elements.h"
#include "oracle/budget/inputs.h"
#include "oracle/cuda/blas.h"
#include "oracle/cuda/device.h"
#include "oracle/cuda/device_oracle.h"
#include "oracle/cuda/launch.h"
#include "oracle/verdict/expectation.h"

namespace plumbline::oracle::cuda {

// Device memory that is kept from one problem to the next.
struct Arena {
  DeviceBlock logits, abs_sums, weight_lsb;    // [block][V], [block][V], [V]
  DeviceBlock hidden, hidden_magnitude;        // [block][H]
  DeviceBlock weight, weight_magnitude;        // [chunk][H]
  DeviceBlock dz, hidden_error, weight_error;  // [block][chunk]
  DeviceBlock grad_hidden, grad_hidden_error;  // [block][H]
  DeviceBlock grad_weight, grad_weight_error;  // [chunk][H], or [V][H] where there are several blocks
  DeviceBlock weight_max, weight_range;        // [H]
  DeviceBlock list, terms, gradient_terms, row_results, lowest, flags;  // [block]
  DeviceBlock rounded, ties;  // [block], [kMostTies] and a count, where logits are rounded
  DeviceBlock mass, limit, infinite_limit, constant, problem_rows, verdicts, watched, gathered;
};

class DeviceSweep {
 public:
  DeviceSweep(const kernel::Problem& problem, std::span<const kernel::Results> results,
              const Contract& contract, size_t memory, std::vector<WatchedRow>* watched,
              const Blas& blas, Arena* arena);
  // Throws DeviceError.
  DeviceVerdicts Run();

 private:
  static constexpr int64_t kChunk = 8192;  // columns of the vocabulary
  // Logits of a block that fp64 does not tell from a tie: a dozen of 10^9 ordinary ones. Each takes
  // some 50 microseconds.
  static constexpr uint64_t kMostTies = 1 << 17;
  static constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;  // of a block's logits

  // Calls visit(first column, columns) for each chunk, in order.
  template <class Visit>
  void ForEachChunk(Visit visit) const {
    for (int64_t first = 0; first < v_; first += kChunk) visit(first, std::min(kChunk, v_ - first));
  }

  bool Gradients() const { return wanted_.grad_hidden || wanted_.grad_weight; }
  // A block of the arena, and the bytes that it must have, per row and beside.
  struct Need {
    DeviceBlock* block;
    int64_t per_row, fixed;
    const char* what;
    size_t Bytes(int64_t rows) const { return static_cast<size_t>(per_row * rows + fixed); }
  };
  std::vector<Need> Needs(bool several_blocks) const;
  void Plan(size_t memory);

  // forward_pass.cc
  void Forward(int64_t begin, int64_t end);
  void FormLogits(int64_t begin, int64_t end);
  void RoundBlock(int64_t begin, int64_t end);
  void SettleTie(const Tie& tie, const RoundedRow& row);
  void WidenWeight(int64_t first, int64_t count);
  Logits BlockLogits() const;
  const Arithmetic& TargetOf(int64_t r) const;
  RowTerms TermsOf(int64_t r) const;
  GradientTerms GradientOf(int64_t r, const Upstream& upstream) const;
  void FindRows(int64_t begin, int64_t end);
  void FindBudgets(int64_t begin, const std::vector<int64_t>& finite);
  void MarkOverflows(int64_t begin, const std::vector<int64_t>& finite);

  // backward_pass.cc
  void Backward(int64_t begin, int64_t end);
  std::vector<int64_t> ActiveRows(int64_t begin, int64_t end);
  std::vector<double> UploadActive(const std::vector<int64_t>& active, int64_t begin);
  void AddWeightRange(const std::vector<double>& mass, bool first_block);
  void AddChunk(int64_t rows, int64_t first, int64_t count, bool first_block);
  void FormGradients(const std::vector<int64_t>& active, int64_t begin);
  void FinishHidden(const std::vector<int64_t>& active, std::vector<double> mass);
  GradientRows WeightRows(int64_t first, int64_t count, const double* value, const double* error) const;
  void FinishWeight();
  void JudgeConstant(Output output, const std::vector<int64_t>& rows,
                     const std::vector<Expect>& expect);
  void JudgeGradient(GradientRows rows);
  void Watch(const GradientRows& rows, const std::vector<int64_t>& problem_rows);

  void JudgeForward(DeviceVerdicts* out);

  const kernel::Problem& problem_;
  std::span<const kernel::Results> results_;
  const kernel::Results& wanted_;
  std::vector<WatchedRow>* watched_;
  const Blas& blas_;
  Arena& arena_;

  Inputs inputs_;
  ArithmeticByTemperature by_temperature_;
  const Arithmetic& target_;
  Promises promises_;
  RadiusRatios ratios_;
  LogitTerms common_;
  int64_t h_, v_, h_ld_, v_ld_, chunk_;

  std::vector<int64_t> normal_;  // the rows with results of their own
  std::vector<Row> rows_;        // by place in normal_, as the next three
  std::vector<RowBudget> budgets_;
  std::vector<char> overflows_;
  std::vector<double> hidden_lsb_;

  int64_t block_ = 1, blocks_ = 1;
  Expectation forward_;
  LossSum loss_;
  bool weight_nan_ = false, weight_unspecified_ = false, weight_some_ = false;
  double weight_limit_;      // the largest that partial sums of grad_weight may become
  int64_t weight_rows_ = 0;  // rows that take part in grad_weight
  std::vector<int64_t> constant_rows_;
  std::vector<Expect> constants_;

  std::vector<std::array<PartialVerdict, 2>> gradients_;  // [set]: grad_hidden, then grad_weight
  double judging_ = 0;                                    // seconds
};

}  // namespace plumbline::oracle::cuda
