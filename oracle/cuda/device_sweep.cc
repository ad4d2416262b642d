// SPDX-License-Identifier: Apache-2.0

#include "oracle/cuda/device_sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>

#include "oracle/judge/verdict.h"
#include "oracle/sweep/operands.h"

namespace plumbline::oracle::cuda {
namespace {

using kernel::ConstTensor;

// Copies a vector or scalar in device memory to host memory, dense.
ConstTensor Fetch(const ConstTensor& t, DeviceBlock* scratch, std::vector<std::byte>* storage) {
  const int64_t count = t.size();
  const auto bytes = static_cast<int>(kernel::SizeOf(t.dtype));
  auto* const dense = scratch->Of<std::byte>(std::max<int64_t>(count * bytes, 1), "a vector");
  Gather(t.data, t.rank > 0 ? t.stride[0] : 0, bytes, count, dense);
  *storage = Download(dense, count * bytes, "reading a vector");
  ConstTensor host = t;
  host.data = storage->data();
  host.stride[0] = 1;
  return host;
}

Inputs Load(const kernel::Problem& problem, DeviceBlock* scratch) {
  kernel::Problem host = problem;
  std::vector<std::byte> storage[4];
  host.labels = Fetch(problem.labels, scratch, &storage[0]);
  if (problem.temperature) host.temperature = Fetch(*problem.temperature, scratch, &storage[1]);
  if (problem.grad_logprob) host.grad_logprob = Fetch(*problem.grad_logprob, scratch, &storage[2]);
  if (problem.grad_entropy) host.grad_entropy = Fetch(*problem.grad_entropy, scratch, &storage[3]);
  return LoadInputs(host);
}

std::string Gigabytes(size_t bytes) {
  const std::string text = std::to_string(static_cast<double>(bytes) * 1e-9);
  return text.substr(0, text.find('.') + 2) + " GB";
}

}  // namespace

std::vector<DeviceBlock*> Arena::All() {
  return {&logits,
          &abs_sums,
          &weight_lsb,
          &hidden,
          &hidden_magnitude,
          &weight,
          &weight_magnitude,
          &dz,
          &hidden_error,
          &weight_error,
          &grad_hidden,
          &grad_hidden_error,
          &grad_weight,
          &grad_weight_error,
          &weight_max,
          &weight_range,
          &list,
          &terms,
          &gradient_terms,
          &row_results,
          &lowest,
          &flags,
          &mass,
          &limit,
          &problem_rows};
}

DeviceSweep::DeviceSweep(const kernel::Problem& problem, std::span<const kernel::Results> results,
                         const Contract& contract, size_t memory, std::vector<WatchedRow>* watched,
                         const Blas& blas, Arena* arena)
    : problem_(problem),
      results_(results),
      wanted_(results.front()),
      watched_(watched),
      blas_(blas),
      arena_(*arena),
      inputs_(Load(problem, &arena->gathered)),
      by_temperature_(contract, problem.hidden.dtype, {inputs_.n, inputs_.v, inputs_.h}),
      target_(by_temperature_.any),
      ratios_(RadiusOver(by_temperature_.power, {inputs_.n, inputs_.v, inputs_.h})),
      common_{target_.certificate, std::ldexp(1.0, static_cast<int>(target_.certificate_lsb)),
              target_.certificate_limit, target_.dot_logit,
              (static_cast<double>(inputs_.h) + 1) * target_.eta},
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

// Decides how many rows a block has, and allocates memory for it.
void DeviceSweep::Plan(size_t memory) {
  const auto rows = static_cast<int64_t>(normal_.size());
  constexpr auto kDouble = static_cast<int64_t>(sizeof(double));
  struct Need {
    DeviceBlock* block;
    int64_t per_row, fixed;  // bytes
    const char* what;
  };
  const auto needs = [&](bool several) {
    const int64_t gradient = several ? v_ * h_ld_ : chunk_ * h_ld_;
    const int64_t hidden = wanted_.grad_hidden ? h_ld_ * kDouble : 0;
    const int64_t weight = wanted_.grad_weight ? gradient * kDouble : 0;
    const int64_t dz = Gradients() ? chunk_ * kDouble : 0;
    const auto largest_result =
        static_cast<int64_t>(std::max({sizeof(Extremes), sizeof(RowSums), sizeof(RowChanges)}));
    return std::vector<Need>{
        {&arena_.logits, v_ld_ * kDouble, 0, "logits"},
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
        {&arena_.flags, kDouble, 0, "flags"},
        {&arena_.mass, kDouble, 0, "ranges of rows"},
        {&arena_.limit, kDouble, 0, "limits of rows"},
        {&arena_.problem_rows, kDouble, 0, "a list of rows"}};
  };
  const auto total = [](const std::vector<Need>& all, int64_t block) {
    int64_t bytes = 0;
    for (const Need& n : all) bytes += n.per_row * block + n.fixed;
    return static_cast<size_t>(bytes);
  };
  size_t free = 0, all = 0, held = 0;
  Check(cudaMemGetInfo(&free, &all), "asking for free memory");
  for (const DeviceBlock* block : arena_.All()) held += block->bytes();
  const size_t most = memory > 0 ? memory : (free + held) / 10 * 9;

  block_ = std::max<int64_t>(rows, 1);
  if (total(needs(false), block_) > most) {
    const size_t fixed = total(needs(true), 0), row = total(needs(true), 1) - fixed;
    block_ = most < fixed ? 0 : static_cast<int64_t>((most - fixed) / row);
    if (block_ < 1) {
      throw DeviceError("the oracle needs " + Gigabytes(fixed + row) +
                        " for one row of H = " + std::to_string(h_) + " and V = " + std::to_string(v_) +
                        " and has " + Gigabytes(most));
    }
    block_ = std::clamp<int64_t>(block_, 1, std::max<int64_t>(rows, 1));
  }
  blocks_ = std::max<int64_t>((rows + block_ - 1) / block_, 1);
  const std::vector<Need> chosen = needs(blocks_ > 1);
  const auto short_of = [&](const Need& n) {
    return n.block->bytes() < static_cast<size_t>(n.per_row * block_ + n.fixed);
  };
  // Memory that the arena holds may leave no room for a block that must grow, so all is released first.
  if (std::any_of(chosen.begin(), chosen.end(), short_of)) {
    for (DeviceBlock* block : arena_.All()) block->Release();
  }
  for (const Need& n : chosen) n.block->Get(static_cast<size_t>(n.per_row * block_ + n.fixed), n.what);
}

DeviceVerdicts DeviceSweep::Run() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (Output output : {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kLse}) {
    if (!Find(wanted_, output)) continue;
    ExpectedTensor& t = forward_[output];
    t.rows = output == Output::kLoss ? 1 : inputs_.n;
    t.columns = 1;
    t.elements.assign(static_cast<size_t>(t.rows), Element{});
  }
  for (int64_t i = 0; i < inputs_.n; ++i) {
    const RowKind kind = inputs_.kind[static_cast<size_t>(i)];
    if (kind == RowKind::kNormal) continue;
    const bool ignored = kind == RowKind::kIgnored;
    for (Output output : {Output::kLogprob, Output::kEntropy, Output::kLse}) {
      std::vector<Element>& elements = forward_[output].elements;
      if (!elements.empty()) elements[static_cast<size_t>(i)] = ignored ? Zero() : NotANumber();
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
  JudgeConstantRows();
  Check(cudaDeviceSynchronize(), "the oracle");
  if (Find(wanted_, Output::kLoss)) {
    forward_[Output::kLoss].elements[0] =
        loss_.Finish(inputs_, problem_.reduction, target_, ratios_.forward);
  }
  DeviceVerdicts out;
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count() - judging_;
  out.row_blocks = blocks_;
  JudgeForward(&out);
  return out;
}

void DeviceSweep::JudgeForward(DeviceVerdicts* out) {
  for (size_t set = 0; set < results_.size(); ++set) {
    kernel::Results host;
    std::vector<std::byte> storage[4];
    const auto fetch = [&](const std::optional<kernel::Tensor>& from, std::optional<kernel::Tensor>* to,
                           std::vector<std::byte>* bytes) {
      if (!from) return;
      *to = *from;
      Fetch(kernel::AsConst(*from), &arena_.gathered, bytes);
      (*to)->data = bytes->data();
      (*to)->stride[0] = 1;
    };
    fetch(results_[set].logprob, &host.logprob, &storage[0]);
    fetch(results_[set].loss, &host.loss, &storage[1]);
    fetch(results_[set].entropy, &host.entropy, &storage[2]);
    fetch(results_[set].lse, &host.lse, &storage[3]);
    Judgement judgement;
    judgement.outputs = JudgeAll(host, forward_);
    judgement.first_invalid_row = inputs_.first_invalid_row;
    for (const Output output : {Output::kGradHidden, Output::kGradWeight}) {
      if (!Find(wanted_, output)) continue;
      const PartialVerdict& part = gradients_[set][output == Output::kGradHidden ? 0 : 1];
      OutputVerdict v;
      v.output = output;
      v.pass = part.pass;
      v.fail = part.fail;
      v.vacuous = part.vacuous;
      v.unspecified = part.unspecified;
      v.tightness = part.tightness;
      v.row = part.row;
      v.column = part.column;
      v.failure = part.failure;
      v.got = part.got;
      v.expected = part.expected;
      judgement.outputs.push_back(v);
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
