// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <cmath>

#include "oracle/budget/overflow.h"
#include "oracle/cuda/device_sweep.h"
#include "oracle/judge/verdict.h"

namespace plumbline::oracle::cuda {
namespace {

using Clock = std::chrono::steady_clock;

template <class T>
T* Of(const DeviceBlock& block, int64_t at = 0) {
  return static_cast<T*>(block.data()) + at;
}

View ViewOf(const kernel::ConstTensor& t) { return {t.data, t.dtype, {t.stride[0], t.stride[1]}}; }

// As in oracle/sweep/gradient_blocks.cc: adds what an accumulation across chunks in 16 bits adds.
double Gain(double dot, double chunks, const Arithmetic& target) {
  return chunks > 0 ? (1 + dot) * (1 + Gamma(chunks + 1, target.accumulator.u)) - 1 : dot;
}

}  // namespace

// The rows of a block that take part in the gradients, by their place among the normal rows. Notes what
// the elements of the other rows must be.
std::vector<int64_t> DeviceSweep::ActiveRows(int64_t begin, int64_t end) {
  std::vector<int64_t> active;
  const auto constant = [&](int64_t i, Expect expect) {
    constant_rows_.push_back(i);
    constants_.push_back(expect);
  };
  for (int64_t r = begin; r < end; ++r) {
    const auto at = static_cast<size_t>(r);
    const int64_t i = normal_[at];
    const auto row = static_cast<size_t>(i);
    if (inputs_.LeftOut(i)) {
      constant(i, Expect::kPlusZero);
      continue;
    }
    const bool known = rows_[at].row_class == RowClass::kFinite && std::isfinite(inputs_.g[row]) &&
                       std::isfinite(inputs_.k[row]) && overflows_[at] == 0;
    if (!known) {
      constant(i, rows_[at].row_class == RowClass::kNaN ? Expect::kNaN : Expect::kUnspecified);
      weight_unspecified_ = true;  // "grad_weight may be NaN"
      continue;
    }
    active.push_back(r);
  }
  return active;
}

// The part that does not depend on the rows: the columns, and how the target's elements are rounded.
GradientRows DeviceSweep::GradientOf(Output output, kernel::DType dtype) const {
  GradientRows g;
  g.output = output;
  g.columns = h_;
  g.ld = h_ld_;
  const Rounding rounding = RoundingOf(dtype);
  g.rounding_u = rounding.u;
  g.rounding_eta = rounding.eta;
  g.largest = rounding.largest;
  g.rounded = dtype != kernel::DType::kF32;
  return g;
}

GradientRows DeviceSweep::HiddenRows(const std::vector<int64_t>& active) {
  GradientRows g = GradientOf(Output::kGradHidden, wanted_.grad_hidden->dtype);
  g.row = Of<int64_t>(arena_.problem_rows);
  g.rows = static_cast<int64_t>(active.size());
  g.value = Of<double>(arena_.grad_hidden);
  g.error = Of<double>(arena_.grad_hidden_error);
  g.row_mass = Of<double>(arena_.mass);
  g.column_range = Of<double>(arena_.weight_max);
  g.row_limit = Of<double>(arena_.limit);
  g.underflow =
      static_cast<double>(v_ + 1) * target_.eta + 2 * target_.chunks_hidden * target_.accumulator.eta;
  g.radius_ratio = ratios_.grad_hidden;
  return g;
}

GradientRows DeviceSweep::WeightRows(int64_t first, int64_t count, const double* value,
                                     const double* error) const {
  GradientRows g = GradientOf(Output::kGradWeight, wanted_.grad_weight->dtype);
  g.first = first;
  g.rows = count;
  g.value = value;
  g.error = error;
  g.column_range = Of<double>(arena_.weight_range);
  g.limit = weight_limit_;
  g.underflow = static_cast<double>(weight_rows_ + 1) * target_.eta +
                2 * target_.chunks_weight * target_.accumulator.eta;
  g.radius_ratio = ratios_.grad_weight;
  return g;
}

void DeviceSweep::FormGradients(const std::vector<int64_t>& active, int64_t begin) {
  const auto rows = static_cast<int64_t>(active.size());
  std::vector<int64_t> list, problem_rows;
  std::vector<RowTerms> terms;
  std::vector<GradientTerms> gradient;
  std::vector<double> mass, twice, limit;
  for (const int64_t r : active) {
    const auto at = static_cast<size_t>(r), i = static_cast<size_t>(normal_[at]);
    const Arithmetic& target = by_temperature_.At(rows_[at].temperature);
    const double g_error = problem_.reduction == kernel::Reduction::kMean ? target_.u : 0;
    const Upstream upstream = {inputs_.g[i], inputs_.k[i], g_error};
    list.push_back(r - begin);
    problem_rows.push_back(normal_[at]);
    terms.push_back(TermsOf(r));
    gradient.push_back(GradientTermsOf(rows_[at], budgets_[at], target, upstream));
    mass.push_back(Widest(rows_[at], budgets_[at], target, upstream));
    twice.push_back(2 * mass.back());
    limit.push_back(target_.accumulator.largest *
                    std::exp(-LargestExponent(rows_[at], budgets_[at], target)));
    weight_limit_ = std::min(weight_limit_, limit.back());
  }
  Upload(list, Of<int64_t>(arena_.list));
  Upload(problem_rows, Of<int64_t>(arena_.problem_rows));
  Upload(terms, Of<RowTerms>(arena_.terms));
  Upload(gradient, Of<GradientTerms>(arena_.gradient_terms));
  Upload(limit, Of<double>(arena_.limit));

  // Rows that take no part may hold NaN and infinities, which no product may meet.
  auto* const hidden = Of<double>(arena_.hidden);
  auto* const magnitude = Of<double>(arena_.hidden_magnitude);
  const bool first_block = weight_rows_ == 0;
  weight_rows_ += rows;
  if (wanted_.grad_weight) {
    Widen(ViewOf(problem_.hidden), Of<int64_t>(arena_.problem_rows), 0, rows, h_, target_.least_operand,
          hidden, magnitude, h_ld_);
    Upload(mass, Of<double>(arena_.mass));
    blas_.Multiply(1, h_, rows, {Of<double>(arena_.mass), rows}, {magnitude, h_ld_}, !first_block,
                   Of<double>(arena_.weight_range), h_ld_);
  }
  Check(cudaMemset(arena_.weight_max.data(), 0, static_cast<size_t>(h_ld_) * sizeof(double)),
        "the largest weights");

  const Coefficients coefficients = {Gain(target_.dot_grad_hidden, target_.chunks_hidden, target_),
                                     Gain(target_.dot_grad_weight, target_.chunks_weight, target_),
                                     target_.least_operand};
  auto* const dz = Of<double>(arena_.dz);
  auto* const hidden_error = Of<double>(arena_.hidden_error);
  auto* const weight_error = Of<double>(arena_.weight_error);
  const Blas::Operand weight = {Of<double>(arena_.weight), h_ld_};
  const Blas::Operand weight_magnitude = {Of<double>(arena_.weight_magnitude), h_ld_};
  ForEachChunk([&](int64_t first, int64_t count) {
    DLogits(BlockLogits(), common_, Of<int64_t>(arena_.list), Of<RowTerms>(arena_.terms),
            Of<GradientTerms>(arena_.gradient_terms), rows, first, count, coefficients, dz,
            hidden_error, weight_error, chunk_);
    if (wanted_.grad_hidden) {
      WidenWeight(first, count);
      Maxima(weight_magnitude.data, count, h_, h_ld_, Of<double>(arena_.weight_max));
      blas_.Multiply(rows, h_, count, {dz, chunk_}, weight, first > 0, Of<double>(arena_.grad_hidden),
                     h_ld_);
      blas_.Multiply(rows, h_, count, {hidden_error, chunk_}, weight_magnitude, first > 0,
                     Of<double>(arena_.grad_hidden_error), h_ld_);
    }
    if (!wanted_.grad_weight || weight_nan_ || weight_unspecified_) return;
    const int64_t at = blocks_ > 1 ? first * h_ld_ : 0;
    auto* const value = Of<double>(arena_.grad_weight, at);
    auto* const error = Of<double>(arena_.grad_weight_error, at);
    const bool add = blocks_ > 1 && !first_block;
    blas_.Multiply(count, h_, rows, {dz, chunk_, true}, {hidden, h_ld_}, add, value, h_ld_);
    blas_.Multiply(count, h_, rows, {weight_error, chunk_, true}, {magnitude, h_ld_}, add, error,
                   h_ld_);
    if (blocks_ == 1) JudgeGradient(WeightRows(first, count, value, error));
  });
  if (!wanted_.grad_hidden) return;
  Upload(twice, Of<double>(arena_.mass));
  const GradientRows of_hidden = HiddenRows(active);
  JudgeGradient(of_hidden);
  Watch(of_hidden, problem_rows);
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
  auto* const constants = arena_.constant.Of<Expect>(v_, "what grad_weight must be");
  Upload(std::vector<Expect>(static_cast<size_t>(v_), expect), constants);
  GradientRows rows;
  rows.output = Output::kGradWeight;
  rows.rows = v_;
  rows.columns = h_;
  rows.constant = constants;
  JudgeGradient(rows);
  Watch(rows, {});
}

// Judges the rows of grad_hidden whose elements are all alike.
void DeviceSweep::JudgeConstantRows() {
  if (!wanted_.grad_hidden || h_ == 0 || constant_rows_.empty()) return;
  const auto count = static_cast<int64_t>(constant_rows_.size());
  GradientRows rows;
  rows.output = Output::kGradHidden;
  rows.rows = count;
  rows.columns = h_;
  auto* const list = arena_.gathered.Of<int64_t>(count, "the rows that are constant");
  auto* const constants = arena_.constant.Of<Expect>(count, "what grad_hidden must be");
  Upload(constant_rows_, list);
  Upload(constants_, constants);
  rows.row = list;
  rows.constant = constants;
  JudgeGradient(rows);
  Watch(rows, constant_rows_);
}

void DeviceSweep::JudgeGradient(const GradientRows& rows) {
  Check(cudaDeviceSynchronize(), "the oracle's gradients");
  const Clock::time_point start = Clock::now();
  auto* const out = arena_.verdicts.Of<PartialVerdict>(kJudgeBlocks, "verdicts");
  for (size_t set = 0; set < results_.size(); ++set) {
    const auto& tensor =
        rows.output == Output::kGradHidden ? results_[set].grad_hidden : results_[set].grad_weight;
    JudgeRows(rows, ViewOf(kernel::AsConst(*tensor)), out);
    PartialVerdict& all = gradients_[set][rows.output == Output::kGradHidden ? 0 : 1];
    for (const PartialVerdict& part : Download(out, kJudgeBlocks, "judging gradients")) {
      const PartialVerdict before = all;
      const bool fails = part.failure != Failure::kNone, failed = all.failure != Failure::kNone;
      const bool worse =
          part.row >= 0 &&
          (all.row < 0 || (fails != failed                   ? fails
                           : part.tightness != all.tightness ? part.tightness > all.tightness
                           : part.row != all.row             ? part.row < all.row
                                                             : part.column < all.column));
      if (worse) all = part;
      all.pass = before.pass + part.pass;
      all.fail = before.fail + part.fail;
      all.vacuous = before.vacuous + part.vacuous;
      all.unspecified = before.unspecified + part.unspecified;
      all.fault = before.fault || part.fault;
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
