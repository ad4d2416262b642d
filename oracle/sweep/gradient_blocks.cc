// SPDX-License-Identifier: Apache-2.0

#include "oracle/sweep/gradient_blocks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "oracle/budget/column_terms.h"
#include "oracle/budget/finish.h"
#include "oracle/budget/overflow.h"
#include "oracle/numeric/buffer.h"
#include "oracle/numeric/threads.h"

namespace plumbline::oracle {

// The memory of one thread.
struct GradientBlocks::Worker {
  Worker(int64_t rows, int64_t width, bool hidden, bool weight, bool logits, bool flushable)
      : dz(rows * kColumns),
        bound(rows * kColumns),
        coefficient(rows * kColumns),
        whole(flushable ? rows * kColumns : 0),
        z(logits ? rows * kColumns : 0),
        abs_sum(logits ? rows * kColumns : 0),
        flush(logits && flushable ? rows * kColumns : 0),
        hidden_value(hidden ? rows * width : 0),
        hidden_bound(hidden ? rows * width : 0),
        weight_max(hidden ? width : 0),
        weight_value(weight ? kColumns * width : 0),
        weight_bound(weight ? kColumns * width : 0),
        expect(static_cast<size_t>(width)) {
    if (hidden) {
      std::fill_n(hidden_value.data(), rows * width, 0.0);
      std::fill_n(hidden_bound.data(), rows * width, 0.0);
      std::fill_n(weight_max.data(), width, 0.0);
    }
  }
  PanelScratch scratch;
  Buffer dz, bound, coefficient;      // [active rows][kColumns]
  Buffer whole;                       // the same, |dz| + 2 b, where flushed operands lose terms
  Buffer z, abs_sum, flush;           // the same, where logits are computed again
  Buffer hidden_value, hidden_bound;  // [active rows][width]
  Buffer weight_max;                  // [width] largest finite |w| of each hidden dimension
  Buffer weight_value, weight_bound;  // [kColumns][width]
  std::vector<Expect> expect;
};

GradientBlocks::GradientBlocks(const Operands& operands, const LogitRounding& rounding,
                               const ArithmeticByTemperature& target, const RadiusRatios& ratios,
                               std::vector<ActiveRow> active, const KeptLogits& kept)
    : operands_(operands),
      rounding_(rounding),
      by_temperature_(target),
      target_(target.any),
      ratios_(ratios),
      active_(std::move(active)),
      kept_(kept),
      width_(RoundUp(operands.hidden_size(), kPanel)),
      weight_limit_(target_.accumulator.largest) {}

void GradientBlocks::WantWeight(kernel::DType dtype) {
  weight_dtype_ = dtype;
  const auto rows = static_cast<int64_t>(active_.size());
  panels_ = Buffer(width_ * rows);
  panel_magnitudes_ = Buffer(width_ * rows);
  weight_range_ = Buffer(width_);
  std::fill_n(weight_range_.data(), width_, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    const ActiveRow& a = active_[static_cast<size_t>(r)];
    const double* const value = operands_.hidden(a.place);
    const double* const magnitude = operands_.magnitude(a.place);
    for (int64_t d = 0; d < width_; d += kPanel) {
      const int64_t to = d * rows + r * kPanel;
      std::memcpy(panels_.data() + to, value + d, kPanel * sizeof(double));
      std::memcpy(panel_magnitudes_.data() + to, magnitude + d, kPanel * sizeof(double));
    }
    weight_limit_ = std::min(weight_limit_, PartialSumLimit(*a.row, *a.budget, Of(a)));
    const double mass = Widest(*a.row, *a.budget, Of(a), a.upstream);
    for (int64_t d = 0; d < width_; ++d) weight_range_.data()[d] += mass * magnitude[d];
  }
}

void GradientBlocks::DLogits(Worker* w, int64_t first, int64_t count) const {
  const double *z = kept_.z, *abs_sum = kept_.abs_sum, *flush = kept_.flushable;
  int64_t stride = kept_.stride, offset = first;
  const bool flushes = operands_.with_flushable();
  if (kept_.z == nullptr) {
    for (int64_t at = 0; at < count; at += kPanel) {
      for (size_t r = 0; r < active_.size(); ++r) {
        const int64_t to = static_cast<int64_t>(r) * kColumns + at, place = active_[r].place;
        if (r > 0 && active_[r - 1].place + 1 == place)
          continue;  // belongs to the run of the row before
        size_t end = r + 1;
        while (end < active_.size() && active_[end].place == active_[end - 1].place + 1) ++end;
        const int64_t last = place + static_cast<int64_t>(end - r);
        double* const of_flush = flushes ? w->flush.data() + to : nullptr;
        operands_.Logits(first + at, place, last, w->scratch, w->z.data() + to, w->abs_sum.data() + to,
                         of_flush, kColumns);
        rounding_.Round(first + at, place, last, of_flush, w->z.data() + to, w->abs_sum.data() + to,
                        kColumns);
      }
    }
    z = w->z.data();
    abs_sum = w->abs_sum.data();
    flush = w->flush.data();
    stride = kColumns;
    offset = 0;
  }
  for (size_t r = 0; r < active_.size(); ++r) {
    const ActiveRow& a = active_[r];
    const auto place = static_cast<int64_t>(r);
    const int64_t from = (kept_.z == nullptr ? place : a.place) * stride + offset;
    const Columns columns = {z + from,
                             abs_sum + from,
                             flushes ? flush + from : nullptr,
                             operands_.weight_lsb(first),
                             operands_.hidden_lsb(a.place),
                             first,
                             count};
    BudgetGradient(*a.row, columns, *a.budget, Of(a), operands_.hidden_size(), a.upstream,
                   w->dz.data() + place * kColumns, w->bound.data() + place * kColumns);
  }
}

void GradientBlocks::AddHidden(Worker* w, int64_t first, int64_t count) const {
  const auto rows = static_cast<int64_t>(active_.size());
  BudgetTerms(w->dz.data(), w->bound.data(), GradientGain(Output::kGradHidden, target_),
              operands_.least(), rows * kColumns, w->coefficient.data());
  for (int64_t d = 0; d < width_; d += kPanel) {
    const int64_t columns = std::min(kPanel, operands_.hidden_size() - d);
    PackPanel(operands_.weight(), first, count, d, columns, operands_.least(), w->scratch.value.data(),
              w->scratch.magnitude.data());
    UpdateMaxima(w->scratch.magnitude.data(), count, w->weight_max.data() + d);
    Gemm({w->dz.data(), kColumns, 1, w->scratch.value.data(), rows, count, 1,
          w->hidden_value.data() + d, width_, true});
    Gemm({w->coefficient.data(), kColumns, 1, w->scratch.magnitude.data(), rows, count, 1,
          w->hidden_bound.data() + d, width_, true});
    if (target_.flush_operands) {  // a term whose weight is subnormal may be lost whole
      KeepSubnormal(w->scratch.value.data(), count * kPanel, w->scratch.magnitude.data());
      Gemm({w->whole.data(), kColumns, 1, w->scratch.magnitude.data(), rows, count, 1,
            w->hidden_bound.data() + d, width_, true});
    }
  }
}

void GradientBlocks::PutWeight(Worker* w, int64_t first, int64_t count, ElementSink* sink) const {
  const auto rows = static_cast<int64_t>(active_.size());
  BudgetTerms(w->dz.data(), w->bound.data(), GradientGain(Output::kGradWeight, target_),
              operands_.least(), rows * kColumns, w->coefficient.data());
  for (int64_t r = 0; r < rows; r += PanelScratch::kDepth) {
    const int64_t depth = std::min(PanelScratch::kDepth, rows - r);
    for (int64_t d = 0; d < width_; d += kPanel) {
      const int64_t at = d * rows + r * kPanel;
      Gemm({w->dz.data() + r * kColumns, 1, kColumns, panels_.data() + at, count, depth, 1,
            w->weight_value.data() + d, width_, r > 0});
      Gemm({w->coefficient.data() + r * kColumns, 1, kColumns, panel_magnitudes_.data() + at, count,
            depth, 1, w->weight_bound.data() + d, width_, r > 0});
      if (target_.flush_operands) {
        KeepSubnormal(panels_.data() + at, depth * kPanel, w->scratch.magnitude.data());
        Gemm({w->whole.data() + r * kColumns, 1, kColumns, w->scratch.magnitude.data(), count, depth, 1,
              w->weight_bound.data() + d, width_, true});
      }
    }
  }
  const GradientSum sum = GradientSumOf(Output::kGradWeight, *weight_dtype_, rows, target_, ratios_);
  const int64_t h = operands_.hidden_size();
  for (int64_t v = 0; v < count; ++v) {
    double* const value = w->weight_value.data() + v * width_;
    double* const bound = w->weight_bound.data() + v * width_;
    FinishGradient({value, bound, weight_range_.data(), w->expect.data(), h}, weight_limit_, sum);
    sink->Take({Output::kGradWeight, first + v, h, value, bound, w->expect.data(), sum.radius_ratio});
  }
}

void GradientBlocks::Block(Worker* w, int64_t first, int64_t count, ElementSink* sink) const {
  DLogits(w, first, count);
  if (target_.flush_operands) {  // a lost term may be as large as |dz| + 2 b
    BudgetTerms(w->dz.data(), w->bound.data(), 1, 0, static_cast<int64_t>(active_.size()) * kColumns,
                w->whole.data());
  }
  if (hidden_dtype_) AddHidden(w, first, count);
  if (weight_dtype_) PutWeight(w, first, count, sink);
}

void GradientBlocks::PutHidden(const Worker& w, ElementSink* sink) const {
  const GradientSum sum =
      GradientSumOf(Output::kGradHidden, *hidden_dtype_, operands_.vocab(), target_, ratios_);
  const Buffer range(width_);
  std::vector<Expect> expect(static_cast<size_t>(width_));
  const int64_t h = operands_.hidden_size();
  for (size_t r = 0; r < active_.size(); ++r) {
    const ActiveRow& a = active_[r];
    // Over all columns |dz| adds up to at most twice Widest: |[v = y] - p| to 2, p |ln p + H| to 2 ln
    // V.
    const double mass = 2 * Widest(*a.row, *a.budget, Of(a), a.upstream);
    for (int64_t d = 0; d < width_; ++d) range.data()[d] = mass * w.weight_max.data()[d];
    double* const value = w.hidden_value.data() + static_cast<int64_t>(r) * width_;
    double* const bound = w.hidden_bound.data() + static_cast<int64_t>(r) * width_;
    const double limit = PartialSumLimit(*a.row, *a.budget, Of(a));
    const GradientTerms terms = GradientTermsOf(*a.row, *a.budget, Of(a), a.upstream);
    const double infinite_limit = terms.infinite_label.Moves() ? limit : -1;
    FinishGradient({value, bound, range.data(), expect.data(), h, infinite_limit}, limit, sum);
    sink->Take({Output::kGradHidden, operands_.problem_row(a.place), h, value, bound, expect.data(),
                sum.radius_ratio});
  }
}

bool GradientBlocks::Run(const SweepOptions& options, ElementSink* sink) {
  const int64_t vocab = operands_.vocab(), blocks = (vocab + kColumns - 1) / kColumns;
  const auto rows = static_cast<int64_t>(active_.size());
  std::vector<std::unique_ptr<Worker>> workers(
      static_cast<size_t>(std::clamp<int64_t>(options.threads, 1, std::max<int64_t>(blocks, 1))));
  ParallelRanges(static_cast<int>(workers.size()), blocks, [&](int id, int64_t begin, int64_t end) {
    std::unique_ptr<Worker>& worker = workers[static_cast<size_t>(id)];
    worker =
        std::make_unique<Worker>(rows, width_, hidden_dtype_.has_value(), weight_dtype_.has_value(),
                                 kept_.z == nullptr, operands_.with_flushable());
    for (int64_t block = begin; block < end && !options.Interrupted(); ++block) {
      const int64_t first = block * kColumns;
      Block(worker.get(), first, std::min(kColumns, vocab - first), sink);
    }
  });
  if (options.Interrupted()) return false;
  if (!hidden_dtype_) return true;
  Worker& first = *workers.front();
  for (size_t i = 1; i < workers.size(); ++i) {
    const Worker& other = *workers[i];
    for (int64_t e = 0; e < rows * width_; ++e) {
      first.hidden_value.data()[e] += other.hidden_value.data()[e];
      first.hidden_bound.data()[e] += other.hidden_bound.data()[e];
    }
    for (int64_t d = 0; d < width_; ++d) {
      first.weight_max.data()[d] = std::max(first.weight_max.data()[d], other.weight_max.data()[d]);
    }
  }
  PutHidden(first, sink);
  return true;
}

}  // namespace plumbline::oracle
