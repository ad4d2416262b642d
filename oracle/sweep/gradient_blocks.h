// SPDX-License-Identifier: Apache-2.0
//
// The backward half of the sweep, by blocks of the vocabulary. Each block forms its d_logits with their
// bounds, then
//   grad_weight  = dz^T . hidden   for the block's columns, handed out at once
//   grad_hidden += dz . weight     handed out at the end
// Beside each product runs the same product of magnitudes, which bounds its error. With b the bound of
// dz and gain that of the target's dot product, a term's error is at most (b + gain (|dz| + b))
// |operand|.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/numeric/buffer.h"
#include "oracle/sweep/logit_rounding.h"
#include "oracle/sweep/operands.h"
#include "oracle/sweep/sweep.h"

namespace plumbline::oracle {

// Logits that the forward half kept: row r's are at z + r * stride. Null: they are computed again.
struct KeptLogits {
  const double* z = nullptr;
  const double* abs_sum = nullptr;
  const double* flushable = nullptr;
  int64_t stride = 0;
};

// A row that takes part, with its place among the operands' rows.
struct ActiveRow {
  int64_t place = 0;
  const Row* row = nullptr;
  const RowBudget* budget = nullptr;
  Upstream upstream;
};

class GradientBlocks {
 public:
  static constexpr int64_t kColumns = 4 * kPanel;  // columns of the vocabulary in a block

  // Everything but `active` must outlive this object. active is not empty and hidden_size > 0.
  GradientBlocks(const Operands& operands, const LogitRounding& rounding,
                 const ArithmeticByTemperature& target, const RadiusRatios& ratios,
                 std::vector<ActiveRow> active, const KeptLogits& kept);

  void WantHidden(kernel::DType dtype) { hidden_dtype_ = dtype; }
  void WantWeight(kernel::DType dtype);

  // Returns false if it was interrupted, and some rows were never handed out.
  bool Run(const SweepOptions& options, ElementSink* sink);

 private:
  struct Worker;
  void Block(Worker* worker, int64_t first, int64_t count, ElementSink* sink) const;
  void DLogits(Worker* worker, int64_t first, int64_t count) const;
  void AddHidden(Worker* worker, int64_t first, int64_t count) const;
  void PutWeight(Worker* worker, int64_t first, int64_t count, ElementSink* sink) const;
  void PutHidden(const Worker& worker, ElementSink* sink) const;

  const Arithmetic& Of(const ActiveRow& row) const { return by_temperature_.At(row.row->temperature); }

  const Operands& operands_;
  const LogitRounding& rounding_;
  const ArithmeticByTemperature& by_temperature_;
  const Arithmetic& target_;  // the constants that hold at any temperature
  const RadiusRatios& ratios_;
  std::vector<ActiveRow> active_;
  KeptLogits kept_;
  int64_t width_;  // hidden size, rounded up to whole panels
  std::optional<kernel::DType> hidden_dtype_, weight_dtype_;
  Buffer panels_, panel_magnitudes_;  // [width / kPanel][active rows][kPanel] of hidden
  Buffer weight_range_;               // [width]
  double weight_limit_;               // the least PartialSumLimit of the rows that take part
};

}  // namespace plumbline::oracle
