// SPDX-License-Identifier: Apache-2.0

#include "oracle/cuda/device_sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "oracle/numeric/gemm.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::oracle::cuda {
namespace {

// Replaces a vector or scalar in device memory by a dense copy in host memory, which *storage owns.
template <class Tensor>
void Fetch(DeviceBlock* scratch, std::deque<std::vector<std::byte>>* storage, Tensor* t) {
  const int64_t count = t->size();
  const auto bytes = static_cast<int>(kernel::SizeOf(t->dtype));
  auto* const dense = scratch->Of<std::byte>(std::max<int64_t>(count * bytes, 1), "a vector");
  Gather(t->data, t->rank > 0 ? t->stride[0] : 0, bytes, count, dense);
  t->data = storage->emplace_back(Download(dense, count * bytes, "reading a vector")).data();
  t->stride[0] = 1;
}

Inputs Load(const kernel::Problem& problem, const Contract& contract, DeviceBlock* scratch) {
  kernel::Problem host = problem;
  std::deque<std::vector<std::byte>> storage;
  Fetch(scratch, &storage, &host.labels);
  for (auto* t : {&host.temperature, &host.grad_logprob, &host.grad_entropy}) {
    if (*t) Fetch(scratch, &storage, &**t);
  }
  return LoadInputs(host, contract);
}

std::string Gigabytes(size_t bytes) {
  const std::string text = std::to_string(static_cast<double>(bytes) * 1e-9);
  return text.substr(0, text.find('.') + 2) + " GB";
}

}  // namespace

DeviceSweep::DeviceSweep(const kernel::Problem& problem, std::span<const kernel::Results> results,
                         const Contract& contract, size_t memory, std::vector<WatchedRow>* watched,
                         const Blas& blas, Arena* arena)
    : problem_(problem),
      results_(results),
      wanted_(results.front()),
      watched_(watched),
      blas_(blas),
      arena_(*arena),
      inputs_(Load(problem, contract, &arena->gathered)),
      by_temperature_(contract, problem.hidden.dtype, {inputs_.n, inputs_.v, inputs_.h}),
      target_(by_temperature_.any),
      promises_(contract.promises),
      ratios_(RadiusOver(by_temperature_.power, {inputs_.n, inputs_.v, inputs_.h})),
      common_(LogitTermsOf(target_, inputs_.h)),
      h_(inputs_.h),
      v_(inputs_.v),
      h_ld_(std::max<int64_t>(RoundUp(h_, 16), 16)),
      v_ld_(std::max<int64_t>(RoundUp(v_, 16), 16)),
      chunk_(std::min(kChunk, v_ld_)),
      normal_(inputs_.NormalRows()),
      rows_(normal_.size()),
      budgets_(normal_.size()),
      overflows_(normal_.size(), 0),
      hidden_lsb_(normal_.size()),
      weight_limit_(target_.accumulator.largest),
      gradients_(results.size()) {
  if (target_.flush_operands) {
    throw DeviceError(
        "a contract whose operands are flushed or rounded (contract.flush, contract.input_rounding) is "
        "judged on the host alone");
  }
  Plan(memory);
}

std::vector<DeviceSweep::Need> DeviceSweep::Needs(bool several_blocks) const {
  constexpr auto kDouble = static_cast<int64_t>(sizeof(double));
  const int64_t gradient = several_blocks ? v_ * h_ld_ : chunk_ * h_ld_;
  const int64_t hidden = wanted_.grad_hidden ? h_ld_ * kDouble : 0;
  const int64_t weight = wanted_.grad_weight ? gradient * kDouble : 0;
  const int64_t dz = Gradients() ? chunk_ * kDouble : 0;
  const int64_t rounded = target_.RoundsLogits() ? static_cast<int64_t>(sizeof(RoundedRow)) : 0;
  const int64_t ties =
      target_.RoundsLogits() ? static_cast<int64_t>(kMostTies * sizeof(Tie) + sizeof(uint64_t)) : 0;
  const auto largest_result =
      static_cast<int64_t>(std::max({sizeof(Extremes), sizeof(RowSums), sizeof(RowChanges)}));
  return {{&arena_.logits, v_ld_ * kDouble, 0, "logits"},
          {&arena_.abs_sums, v_ld_ * kDouble, 0, "the logits' sums of magnitudes"},
          {&arena_.weight_lsb, 0, v_ld_ * kDouble, "lowest bits of weight"},
          {&arena_.hidden, h_ld_ * kDouble, 0, "hidden in FP64"},
          {&arena_.hidden_magnitude, h_ld_ * kDouble, 0, "hidden's magnitudes"},
          {&arena_.weight, 0, chunk_ * h_ld_ * kDouble, "a chunk of weight in FP64"},
          {&arena_.weight_magnitude, 0, chunk_ * h_ld_ * kDouble, "a chunk of weight's magnitudes"},
          {&arena_.dz, dz, 0, "d_logits"},
          {&arena_.hidden_error, dz, 0, "bounds of d_logits"},
          {&arena_.weight_error, dz, 0, "bounds of d_logits"},
          {&arena_.grad_hidden, hidden, 0, "grad_hidden in FP64"},
          {&arena_.grad_hidden_error, hidden, 0, "bounds of grad_hidden"},
          {&arena_.grad_weight, 0, weight, "grad_weight in FP64"},
          {&arena_.grad_weight_error, 0, weight, "bounds of grad_weight"},
          {&arena_.weight_max, 0, h_ld_ * kDouble, "largest weights"},
          {&arena_.weight_range, 0, h_ld_ * kDouble, "ranges of grad_weight"},
          {&arena_.list, kDouble, 0, "a list of rows"},
          {&arena_.terms, static_cast<int64_t>(sizeof(RowTerms)), 0, "rows"},
          {&arena_.gradient_terms, static_cast<int64_t>(sizeof(GradientTerms)), 0, "rows' gradients"},
          {&arena_.row_results, largest_result, 0, "rows' sums"},
          {&arena_.lowest, kDouble, 0, "lowest bits of hidden"},
          {&arena_.rounded, rounded, 0, "rows whose logits are rounded"},
          {&arena_.ties, 0, ties, "logits near a tie"},
          {&arena_.flags, kDouble, 0, "flags"},
          {&arena_.mass, kDouble, 0, "ranges of rows"},
          {&arena_.limit, kDouble, 0, "limits of rows"},
          {&arena_.infinite_limit, kDouble, 0, "limits of rows' infinite elements"},
          {&arena_.problem_rows, kDouble, 0, "a list of rows"}};
}

// Decides how many rows a block has, and allocates memory for it.
void DeviceSweep::Plan(size_t memory) {
  const auto rows = static_cast<int64_t>(normal_.size());
  const auto total = [](const std::vector<Need>& needs, int64_t block) {
    size_t bytes = 0;
    for (const Need& n : needs) bytes += n.Bytes(block);
    return bytes;
  };
  const std::vector<Need> whole = Needs(false), parts = Needs(true);
  size_t free = 0, all = 0, held = 0;
  Check(cudaMemGetInfo(&free, &all), "asking for free memory");
  for (const Need& n : whole) held += n.block->bytes();
  const size_t most = memory > 0 ? memory : (free + held) / 10 * 9;

  // cuBLAS reads beyond a product of 2^31 elements or more: an illegal address at 32 768 x 262 145.
  const int64_t most_rows = std::max<int64_t>(1, kMostElements / std::max<int64_t>(v_ld_, 1));
  block_ = std::max<int64_t>(rows, 1);
  if (total(whole, block_) > most || block_ > most_rows) {
    const size_t fixed = total(parts, 0), row = total(parts, 1) - fixed;
    block_ = most < fixed ? 0 : static_cast<int64_t>((most - fixed) / row);
    block_ = std::min(block_, most_rows);
    if (block_ < 1) {
      throw DeviceError("the oracle needs " + Gigabytes(fixed + row) +
                        " for one row of H = " + std::to_string(h_) + " and V = " + std::to_string(v_) +
                        " and has " + Gigabytes(most));
    }
    block_ = std::clamp<int64_t>(block_, 1, std::max<int64_t>(rows, 1));
  }
  blocks_ = std::max<int64_t>((rows + block_ - 1) / block_, 1);
  const std::vector<Need>& chosen = blocks_ > 1 ? parts : whole;
  const auto short_of = [&](const Need& n) { return n.block->bytes() < n.Bytes(block_); };
  // Memory that the arena holds may leave no room for a block that must grow, so all is released first.
  if (std::any_of(chosen.begin(), chosen.end(), short_of)) {
    for (const Need& n : chosen) n.block->Release();
  }
  for (const Need& n : chosen) n.block->Get(n.Bytes(block_), n.what);
}

DeviceVerdicts DeviceSweep::Run() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  kernel::Results forward = wanted_;
  forward.grad_hidden = forward.grad_weight = std::nullopt;
  forward_ = std::move(Collector(problem_, forward).all);
  for (int64_t i = 0; i < inputs_.n; ++i) {
    const RowKind kind = inputs_.kind[static_cast<size_t>(i)];
    if (kind == RowKind::kNormal) continue;
    const bool ignored = kind == RowKind::kIgnored;
    for (Output output : {Output::kLogprob, Output::kEntropy, Output::kLse}) {
      std::vector<Element>& elements = forward_[output].elements;
      if (!elements.empty()) elements[static_cast<size_t>(i)] = ignored ? Ignored() : NotANumber();
    }
    constant_rows_.push_back(i);
    constants_.push_back(ignored ? Expect::kPlusZero : Expect::kNaN);
    if (ignored) continue;
    loss_.AddInvalid();
    weight_nan_ = true;
  }
  const auto rows = static_cast<int64_t>(normal_.size());
  for (int64_t begin = 0; begin < rows; begin += block_) {
    const int64_t end = std::min(rows, begin + block_);
    Forward(begin, end);
    if (Gradients()) Backward(begin, end);
  }
  FinishWeight();
  JudgeConstant(Output::kGradHidden, constant_rows_, constants_);
  Check(cudaDeviceSynchronize(), "the oracle");
  if (Find(wanted_, Output::kLoss)) {
    forward_[Output::kLoss].elements[0] = Written(
        Output::kLoss, loss_.Finish(inputs_, problem_.reduction, target_, ratios_.forward), target_);
  }
  DeviceVerdicts out;
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count() - judging_;
  out.row_blocks = blocks_;
  JudgeForward(&out);
  return out;
}

void DeviceSweep::JudgeForward(DeviceVerdicts* out) {
  for (size_t set = 0; set < results_.size(); ++set) {
    kernel::Results host = results_[set];
    host.grad_hidden = host.grad_weight = std::nullopt;
    std::deque<std::vector<std::byte>> storage;
    for (auto* t : {&host.logprob, &host.loss, &host.entropy, &host.lse}) {
      if (*t) Fetch(&arena_.gathered, &storage, &**t);
    }
    Judgement judgement;
    judgement.outputs = JudgeAll(host, forward_, promises_);
    judgement.first_invalid_row = inputs_.first_invalid_row;
    for (const Output output : {Output::kGradHidden, Output::kGradWeight}) {
      if (!Find(wanted_, output)) continue;
      const PartialVerdict& part = gradients_[set][output == Output::kGradHidden ? 0 : 1];
      judgement.outputs.push_back(part);
      judgement.outputs.back().output = output;
      if (part.fault) {
        judgement.fault = std::string(Name(output)) + ": one of the oracle's bounds is not a number";
      }
    }
    for (const ExpectedTensor& t : forward_.outputs) {
      for (const Element& e : t.elements) {
        if (std::isnan(e.bound) || e.bound < 0) judgement.fault = "a forward bound is not a number";
      }
    }
    out->judged.push_back(std::move(judgement));
  }
  if (watched_ == nullptr) return;
  for (WatchedRow& w : *watched_) {
    const std::vector<Element>& elements = forward_[w.output].elements;
    if (!elements.empty()) w.elements = {elements[static_cast<size_t>(w.row)]};
  }
}

}  // namespace plumbline::oracle::cuda
