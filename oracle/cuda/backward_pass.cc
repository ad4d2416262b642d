// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "oracle/budget/finish.h"
#include "oracle/budget/forward_elements.h"
#include "oracle/budget/overflow.h"
#include "oracle/cuda/device_sweep.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::oracle::cuda {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// The rows of a block that take part in the gradients, by their place among the normal rows. Notes what
// the elements of the other rows must be.
std::vector<int64_t> DeviceSweep::ActiveRows(int64_t begin, int64_t end) {
  std::vector<int64_t> active;
  for (int64_t r = begin; r < end; ++r) {
    const auto at = static_cast<size_t>(r);
    const auto constant = ConstantGradient(inputs_, normal_[at], rows_[at], overflows_[at] != 0);
    if (!constant) {
      active.push_back(r);
      continue;
    }
    constant_rows_.push_back(normal_[at]);
    constants_.push_back(constant->expect);
    if (constant->expect != Expect::kPlusZero) weight_unspecified_ = true;  // "grad_weight may be NaN"
  }
  return active;
}

GradientRows DeviceSweep::WeightRows(int64_t first, int64_t count, const double* value,
                                     const double* error) const {
  return {.output = Output::kGradWeight,
          .first = first,
          .rows = count,
          .columns = h_,
          .ld = h_ld_,
          .value = value,
          .error = error,
          .column_range = Of<double>(arena_.weight_range),
          .limit = weight_limit_,
          .sum = GradientSumOf(Output::kGradWeight, wanted_.grad_weight->dtype, weight_rows_, target_,
                               ratios_)};
}

// Uploads what DLogits needs of the rows that take part. Returns the width of each row's d_logits.
std::vector<double> DeviceSweep::UploadActive(const std::vector<int64_t>& active, int64_t begin) {
  std::vector<int64_t> list, problem_rows;
  std::vector<RowTerms> terms;
  std::vector<GradientTerms> gradient;
  std::vector<double> mass, limit, infinite_limit;
  for (const int64_t r : active) {
    const auto at = static_cast<size_t>(r), i = static_cast<size_t>(normal_[at]);
    const double g_error =
        problem_.reduction == kernel::Reduction::kMean ? target_.upstream_division : 0;
    const Upstream upstream = {inputs_.g[i], inputs_.k[i], g_error};
    list.push_back(r - begin);
    problem_rows.push_back(normal_[at]);
    terms.push_back(TermsOf(r));
    gradient.push_back(GradientOf(r, upstream));
    mass.push_back(Widest(rows_[at], budgets_[at], TargetOf(r), upstream));
    limit.push_back(PartialSumLimit(rows_[at], budgets_[at], TargetOf(r)));
    infinite_limit.push_back(gradient.back().infinite_label.Moves() ? limit.back() : -1);
    weight_limit_ = std::min(weight_limit_, limit.back());
  }
  Upload(list, Of<int64_t>(arena_.list));
  Upload(problem_rows, Of<int64_t>(arena_.problem_rows));
  Upload(terms, Of<RowTerms>(arena_.terms));
  Upload(gradient, Of<GradientTerms>(arena_.gradient_terms));
  Upload(limit, Of<double>(arena_.limit));
  Upload(infinite_limit, Of<double>(arena_.infinite_limit));
  return mass;
}

// Widens hidden of the rows that take part (the others may hold NaN and infinities, which no product
// may meet) and adds to the ranges of grad_weight.
void DeviceSweep::AddWeightRange(const std::vector<double>& mass, bool first_block) {
  const auto rows = static_cast<int64_t>(mass.size());
  auto* const magnitude = Of<double>(arena_.hidden_magnitude);
  Widen(Matrix::Of(problem_.hidden), Of<int64_t>(arena_.problem_rows), 0, rows, h_,
        target_.least_operand, Of<double>(arena_.hidden), magnitude, h_ld_);
  Upload(mass, Of<double>(arena_.mass));
  blas_.Multiply(1, h_, rows, {Of<double>(arena_.mass), rows}, {magnitude, h_ld_}, !first_block,
                 Of<double>(arena_.weight_range), h_ld_);
}

// Adds a chunk of the vocabulary to both gradients of the rows that take part.
void DeviceSweep::AddChunk(int64_t rows, int64_t first, int64_t count, bool first_block) {
  auto* const dz = Of<double>(arena_.dz);
  auto* const hidden_error = Of<double>(arena_.hidden_error);
  auto* const weight_error = Of<double>(arena_.weight_error);
  DLogits(BlockLogits(), common_, Of<int64_t>(arena_.list), Of<RowTerms>(arena_.terms),
          Of<GradientTerms>(arena_.gradient_terms), rows, first, count,
          {GradientGain(Output::kGradHidden, target_), GradientGain(Output::kGradWeight, target_),
           target_.least_operand},
          dz, hidden_error, weight_error, chunk_);
  if (wanted_.grad_hidden) {
    WidenWeight(first, count);
    const Blas::Operand weight = {Of<double>(arena_.weight), h_ld_};
    const Blas::Operand magnitude = {Of<double>(arena_.weight_magnitude), h_ld_};
    Maxima(magnitude.data, count, h_, h_ld_, Of<double>(arena_.weight_max));
    blas_.Multiply(rows, h_, count, {dz, chunk_}, weight, first > 0, Of<double>(arena_.grad_hidden),
                   h_ld_);
    blas_.Multiply(rows, h_, count, {hidden_error, chunk_}, magnitude, first > 0,
                   Of<double>(arena_.grad_hidden_error), h_ld_);
  }
  if (!wanted_.grad_weight || weight_nan_ || weight_unspecified_) return;
  const int64_t at = blocks_ > 1 ? first * h_ld_ : 0;
  auto* const value = Of<double>(arena_.grad_weight, at);
  auto* const error = Of<double>(arena_.grad_weight_error, at);
  const bool add = blocks_ > 1 && !first_block;
  blas_.Multiply(count, h_, rows, {dz, chunk_, true}, {Of<double>(arena_.hidden), h_ld_}, add, value,
                 h_ld_);
  blas_.Multiply(count, h_, rows, {weight_error, chunk_, true},
                 {Of<double>(arena_.hidden_magnitude), h_ld_}, add, error, h_ld_);
  if (blocks_ == 1) JudgeGradient(WeightRows(first, count, value, error));
}

void DeviceSweep::FormGradients(const std::vector<int64_t>& active, int64_t begin) {
  const auto rows = static_cast<int64_t>(active.size());
  const bool first_block = weight_rows_ == 0;
  weight_rows_ += rows;
  std::vector<double> mass = UploadActive(active, begin);
  if (wanted_.grad_weight) AddWeightRange(mass, first_block);
  Check(cudaMemset(arena_.weight_max.data(), 0, static_cast<size_t>(h_ld_) * sizeof(double)),
        "the largest weights");
  ForEachChunk([&](int64_t first, int64_t count) { AddChunk(rows, first, count, first_block); });
  if (wanted_.grad_hidden) FinishHidden(active, std::move(mass));
}

// Judges grad_hidden of the rows that take part, once all of the vocabulary is summed.
void DeviceSweep::FinishHidden(const std::vector<int64_t>& active, std::vector<double> mass) {
  for (double& m : mass) m *= 2;
  Upload(mass, Of<double>(arena_.mass));
  const GradientRows g = {
      .output = Output::kGradHidden,
      .row = Of<int64_t>(arena_.problem_rows),
      .rows = static_cast<int64_t>(active.size()),
      .columns = h_,
      .ld = h_ld_,
      .value = Of<double>(arena_.grad_hidden),
      .error = Of<double>(arena_.grad_hidden_error),
      .row_mass = Of<double>(arena_.mass),
      .column_range = Of<double>(arena_.weight_max),
      .row_limit = Of<double>(arena_.limit),
      .row_infinite_limit = Of<double>(arena_.infinite_limit),
      .sum = GradientSumOf(Output::kGradHidden, wanted_.grad_hidden->dtype, v_, target_, ratios_)};
  JudgeGradient(g);
  std::vector<int64_t> problem_rows;
  for (const int64_t r : active) problem_rows.push_back(normal_[static_cast<size_t>(r)]);
  Watch(g, problem_rows);
}

void DeviceSweep::Backward(int64_t begin, int64_t end) {
  const std::vector<int64_t> active = ActiveRows(begin, end);
  if (active.empty()) return;
  weight_some_ = true;
  if (h_ > 0) FormGradients(active, begin);
}

// Judges the grad_weight that was not judged by chunks, once all rows are summed.
void DeviceSweep::FinishWeight() {
  if (!wanted_.grad_weight || h_ == 0 || v_ == 0) return;
  const bool constant = weight_nan_ || weight_unspecified_ || !weight_some_;
  if (!constant) {
    if (blocks_ == 1) return;
    const GradientRows all =
        WeightRows(0, v_, Of<double>(arena_.grad_weight), Of<double>(arena_.grad_weight_error));
    JudgeGradient(all);
    Watch(all, {});
    return;
  }
  const Expect expect = weight_nan_           ? Expect::kNaN
                        : weight_unspecified_ ? Expect::kUnspecified
                                              : Expect::kPlusZero;
  std::vector<int64_t> rows(static_cast<size_t>(v_));
  std::iota(rows.begin(), rows.end(), 0);
  JudgeConstant(Output::kGradWeight, rows, std::vector(rows.size(), expect));
}

// Judges rows of a gradient, each of whose elements are all alike.
void DeviceSweep::JudgeConstant(Output output, const std::vector<int64_t>& rows,
                                const std::vector<Expect>& expect) {
  if (!Find(wanted_, output) || h_ == 0 || rows.empty()) return;
  const auto count = static_cast<int64_t>(rows.size());
  auto* const list = arena_.gathered.Of<int64_t>(count, "the rows that are constant");
  auto* const constants = arena_.constant.Of<Expect>(count, "what constant rows must be");
  Upload(rows, list);
  Upload(expect, constants);
  const GradientRows g = {
      .output = output, .row = list, .rows = count, .columns = h_, .constant = constants, .sum = {}};
  JudgeGradient(g);
  Watch(g, rows);
}

void DeviceSweep::JudgeGradient(GradientRows rows) {
  rows.promises = promises_;
  Check(cudaDeviceSynchronize(), "the oracle's gradients");
  const Clock::time_point start = Clock::now();
  auto* const out = arena_.verdicts.Of<PartialVerdict>(kJudgeBlocks, "verdicts");
  for (size_t set = 0; set < results_.size(); ++set) {
    JudgeRows(rows, Matrix::Of(kernel::AsConst(*Find(results_[set], rows.output))), out);
    PartialVerdict& all = gradients_[set][rows.output == Output::kGradHidden ? 0 : 1];
    for (const PartialVerdict& part : Download(out, kJudgeBlocks, "judging gradients")) {
      Merge(part, &all);
      all.fault = all.fault || part.fault;
    }
  }
  judging_ += std::chrono::duration<double>(Clock::now() - start).count();
  if (rows.output == Output::kGradWeight && rows.constant == nullptr && blocks_ == 1) Watch(rows, {});
}

// problem_rows names the tensor row of each of `rows`. Empty: they are consecutive from rows.first.
void DeviceSweep::Watch(const GradientRows& rows, const std::vector<int64_t>& problem_rows) {
  if (watched_ == nullptr) return;
  std::vector<int64_t> list;
  std::vector<WatchedRow*> asked;
  for (WatchedRow& w : *watched_) {
    if (w.output != rows.output) continue;
    int64_t at = w.row - rows.first;
    if (!problem_rows.empty()) {
      const auto found = std::find(problem_rows.begin(), problem_rows.end(), w.row);
      at = found == problem_rows.end() ? -1 : found - problem_rows.begin();
    }
    if (at < 0 || at >= rows.rows) continue;
    list.push_back(at);
    asked.push_back(&w);
  }
  if (list.empty()) return;
  const auto count = static_cast<int64_t>(list.size());
  auto* const device_list = arena_.flags.Of<int64_t>(count, "the rows that are watched");
  auto* const out = arena_.watched.Of<Element>(count * rows.columns, "the rows that are watched");
  Upload(list, device_list);
  ExpectRows(rows, device_list, count, out);
  const std::vector<Element> elements =
      Download(out, count * rows.columns, "what watched rows must be");
  for (size_t k = 0; k < asked.size(); ++k) {
    const auto from = elements.begin() + static_cast<int64_t>(k) * rows.columns;
    asked[k]->elements.assign(from, from + rows.columns);
  }
}

}  // namespace plumbline::oracle::cuda
