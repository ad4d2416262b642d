// SPDX-License-Identifier: Apache-2.0

#include "oracle/sweep/sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/budget.h"
#include "oracle/budget/forward_elements.h"
#include "oracle/budget/inputs.h"
#include "oracle/budget/overflow.h"
#include "oracle/budget/row.h"
#include "oracle/numeric/buffer.h"
#include "oracle/numeric/threads.h"
#include "oracle/sweep/gradient_blocks.h"
#include "oracle/sweep/logit_rounding.h"
#include "oracle/sweep/operands.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::oracle {
namespace {

using kernel::Problem;
using kernel::Reduction;
using kernel::Results;

// The state that is carried from row to row.
class Sweeper {
 public:
  Sweeper(const Problem& problem, const Results& wanted, const Contract& contract,
          const SweepOptions& options, ElementSink* sink);
  SweepResult Run();

 private:
  bool Gradients() const { return wanted_.grad_hidden || wanted_.grad_weight; }
  void Put(Output output, int64_t row, const Element& e) const;
  void PutRow(Output output, int64_t row, const Element& e) const;

  void ForwardBlock(int64_t begin, int64_t end, const Buffer& z, const Buffer& abs_sum,
                    const Buffer& flushable);
  void ForwardRow(int64_t r, const Columns& all);
  void PutForward(int64_t r);
  bool MayOverflow(int64_t r, const Columns& all, const RowBudget& budget) const;
  bool Backward(const KeptLogits& kept);  // returns false if interrupted

  const Results& wanted_;
  const SweepOptions& options_;
  ElementSink* sink_;
  Inputs in_;
  Reduction reduction_;
  ArithmeticByTemperature by_temperature_;
  const Arithmetic& target_;  // the constants that hold at any temperature
  RadiusRatios ratios_;
  Operands operands_;
  LogitRounding rounding_;
  std::vector<Row> rows_;  // by place among the normal rows
  std::vector<RowBudget> budgets_;
  std::vector<char> overflows_;

  LossSum loss_;
  bool weight_nan_ = false, weight_unspecified_ = false, infinite_label_ = false;
};

Sweeper::Sweeper(const Problem& problem, const Results& wanted, const Contract& contract,
                 const SweepOptions& options, ElementSink* sink)
    : wanted_(wanted),
      options_(options),
      sink_(sink),
      in_(LoadInputs(problem, contract, options.counted_rows)),
      reduction_(problem.reduction),
      by_temperature_(contract, problem.hidden.dtype, {in_.n, in_.v, in_.h}),
      target_(by_temperature_.any),
      // Where T is a power of two the bound is smaller, so the radius is a larger share of it.
      ratios_(RadiusOver(by_temperature_.power, {in_.n, in_.v, in_.h})),
      operands_(problem, in_.NormalRows(), target_.least_operand, target_.flush_operands),
      rounding_(operands_, by_temperature_, in_),
      rows_(static_cast<size_t>(operands_.rows())),
      budgets_(rows_.size()),
      overflows_(rows_.size(), 0) {}

void Sweeper::Put(Output output, int64_t row, const Element& e) const {
  if (!Find(wanted_, output)) return;
  // Only an element with a bound has a radius, since the radius is a share of the bound.
  const Element written = Written(output, e, target_);
  sink_->Take({output, row, 1, &written.value, &written.bound, &written.expect, ratios_.forward});
}

void Sweeper::PutRow(Output output, int64_t row, const Element& e) const {
  if (!Find(wanted_, output) || in_.h == 0) return;
  const auto h = static_cast<size_t>(in_.h);
  const std::vector<double> value(h, e.value), bound(h, e.bound);
  const std::vector<Expect> expect(h, e.expect);
  sink_->Take({output, row, in_.h, value.data(), bound.data(), expect.data(), 0});
}

// Returns whether some d_logit of the row may be infinite.
bool Sweeper::MayOverflow(int64_t r, const Columns& all, const RowBudget& budget) const {
  const Row& row = rows_[static_cast<size_t>(r)];
  const auto i = static_cast<size_t>(operands_.problem_row(r));
  const Arithmetic& target = by_temperature_.At(row.temperature);
  if (!MayBeInfinite(row, budget, target, {in_.g[i], in_.k[i], 0})) return false;
  const Buffer value(RoundUp(all.count, kPanel)), bound(RoundUp(all.count, kPanel));
  return BudgetGradient(row, all, budget, target, in_.h, {in_.g[i], in_.k[i], 0}, value.data(),
                        bound.data());
}

void Sweeper::ForwardRow(int64_t r, const Columns& all) {
  const auto at = static_cast<size_t>(r), i = static_cast<size_t>(operands_.problem_row(r));
  rows_[at] = ComputeRow(all, in_.temperature[i], in_.label[i], target_.scaled_logits.has_value());
  if (rows_[at].row_class != RowClass::kFinite) return;
  if (OutsideOfContract(rows_[at], target_)) {
    rows_[at].row_class = RowClass::kUnspecified;
    return;
  }
  budgets_[at] = BudgetForward(rows_[at], all, by_temperature_.At(rows_[at].temperature), in_.h);
  if (Gradients() && std::isfinite(in_.g[i]) && std::isfinite(in_.k[i])) {
    overflows_[at] = MayOverflow(r, all, budgets_[at]) ? 1 : 0;
  }
}

// Called in the order of the rows, however the threads finished.
void Sweeper::PutForward(int64_t r) {
  const int64_t i = operands_.problem_row(r);
  const ForwardElements e =
      ForwardOf(rows_[static_cast<size_t>(r)], budgets_[static_cast<size_t>(r)], ratios_.forward);
  Put(Output::kLogprob, i, e.logprob);
  Put(Output::kEntropy, i, e.entropy);
  Put(Output::kLse, i, e.lse);
  loss_.Add(e);
}

// Forward of rows [begin, end). The buffers hold their logits, RoundUp(V, kPanel) apart.
void Sweeper::ForwardBlock(int64_t begin, int64_t end, const Buffer& z, const Buffer& abs_sum,
                           const Buffer& flushable) {
  const int64_t stride = RoundUp(in_.v, kPanel);
  ParallelRanges(options_.threads, stride / kPanel, [&](int, int64_t first, int64_t last) {
    const PanelScratch scratch;
    for (int64_t panel = first; panel < last && !options_.Interrupted(); ++panel) {
      const int64_t at = panel * kPanel;
      double* const flush = operands_.with_flushable() ? flushable.data() + at : nullptr;
      operands_.Logits(at, begin, end, scratch, z.data() + at, abs_sum.data() + at, flush, stride);
      rounding_.Round(at, begin, end, flush, z.data() + at, abs_sum.data() + at, stride);
    }
  });
  if (options_.Interrupted()) return;
  ParallelRanges(options_.threads, end - begin, [&](int, int64_t first, int64_t last) {
    for (int64_t r = begin + first; r < begin + last && !options_.Interrupted(); ++r) {
      const int64_t at = (r - begin) * stride;
      ForwardRow(r, {z.data() + at, abs_sum.data() + at,
                     operands_.with_flushable() ? flushable.data() + at : nullptr,
                     operands_.weight_lsb(0), operands_.hidden_lsb(r), 0, in_.v});
    }
  });
  if (options_.Interrupted()) return;
  for (int64_t r = begin; r < end; ++r) PutForward(r);
}

bool Sweeper::Backward(const KeptLogits& kept) {
  std::vector<ActiveRow> active;
  for (int64_t r = 0; r < operands_.rows(); ++r) {
    const int64_t i = operands_.problem_row(r);
    const auto at = static_cast<size_t>(i);
    const Row& row = rows_[static_cast<size_t>(r)];
    if (const auto e = ConstantGradient(in_, i, row, overflows_[static_cast<size_t>(r)] != 0)) {
      PutRow(Output::kGradHidden, i, *e);
      if (e->expect != Expect::kPlusZero) weight_unspecified_ = true;  // "grad_weight may be NaN"
      continue;
    }
    const double g_error = reduction_ == Reduction::kMean ? target_.upstream_division : 0;
    active.push_back({r,
                      &row,
                      &budgets_[static_cast<size_t>(r)],
                      {in_.g[at], in_.k[at], g_error, options_.drops_infinite_label}});
    infinite_label_ = infinite_label_ || std::isinf(row.label_z);
  }
  const bool constant_weight = weight_nan_ || weight_unspecified_ || active.empty();
  if (constant_weight) {
    const Element e = weight_nan_ ? NotANumber() : weight_unspecified_ ? Unspecified() : PlusZero();
    for (int64_t v = 0; v < in_.v; ++v) PutRow(Output::kGradWeight, v, e);
  }
  if (active.empty() || in_.h == 0) return true;
  GradientBlocks blocks(operands_, rounding_, by_temperature_, ratios_, std::move(active), kept);
  if (wanted_.grad_hidden) blocks.WantHidden(wanted_.grad_hidden->dtype);
  if (wanted_.grad_weight && !constant_weight) blocks.WantWeight(wanted_.grad_weight->dtype);
  return blocks.Run(options_, sink_);
}

SweepResult Sweeper::Run() {
  for (int64_t i = 0; i < in_.n; ++i) {
    const RowKind kind = in_.kind[static_cast<size_t>(i)];
    if (kind == RowKind::kNormal) continue;
    const bool ignored = kind == RowKind::kIgnored;
    for (Output o : {Output::kLogprob, Output::kEntropy, Output::kLse}) {
      Put(o, i, ignored ? Ignored() : NotANumber());
    }
    PutRow(Output::kGradHidden, i, ignored ? PlusZero() : NotANumber());
    if (!ignored) {
      loss_.AddInvalid();
      weight_nan_ = true;
    }
  }

  const int64_t rows = operands_.rows(), stride = RoundUp(in_.v, kPanel);
  const auto row_bytes =
      static_cast<size_t>(stride) * sizeof(double) * (operands_.with_flushable() ? 3 : 2);
  const auto fitting = static_cast<int64_t>(options_.memory / std::max<size_t>(row_bytes, 1));
  const int64_t block = std::clamp<int64_t>(fitting, 1, std::max<int64_t>(rows, 1));
  const Buffer z(block * stride), abs_sum(block * stride),
      flushable(operands_.with_flushable() ? block * stride : 0);
  for (int64_t begin = 0; begin < rows; begin += block) {
    ForwardBlock(begin, std::min(rows, begin + block), z, abs_sum, flushable);
    if (options_.Interrupted()) return {in_.first_invalid_row, true};
  }
  Put(Output::kLoss, 0, loss_.Finish(in_, reduction_, target_, ratios_.forward));
  if (Gradients()) {
    // If all rows fit, their logits are all still here. Otherwise they are computed again, block by
    // block.
    KeptLogits kept;
    if (block >= rows) kept = {z.data(), abs_sum.data(), flushable.data(), stride};
    if (!Backward(kept)) return {in_.first_invalid_row, true};
  }
  return {in_.first_invalid_row, false, infinite_label_};
}

}  // namespace

SweepResult Sweep(const Problem& problem, const Results& wanted, const Contract& contract,
                  const SweepOptions& options, ElementSink* sink) {
  return Sweeper(problem, wanted, contract, options, sink).Run();
}

}  // namespace plumbline::oracle
