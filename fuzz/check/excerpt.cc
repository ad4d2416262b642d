// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/excerpt.h"

#include <cstring>

#include "oracle/judge/verdict.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using kernel::DType;
using kernel::Tensor;

// Copies rows `at` of a float tensor, dense.
HostTensor Rows(const ConstTensor& from, const std::vector<int64_t>& at) {
  std::vector<int64_t> shape = {static_cast<int64_t>(at.size())};
  if (from.rank > 1) shape.push_back(from.shape[1]);
  HostTensor to = HostTensor::Zeros(from.dtype, shape);
  const size_t element = kernel::SizeOf(from.dtype);
  const size_t row_bytes = element * static_cast<size_t>(from.rank > 1 ? from.shape[1] : 1);
  for (size_t i = 0; i < at.size() && row_bytes > 0; ++i) {
    const int64_t source = from.rank > 0 ? at[i] * from.stride[0] : 0;
    std::memcpy(to.bytes.data() + i * row_bytes,
                static_cast<const std::byte*>(from.data) + static_cast<size_t>(source) * element,
                row_bytes);
  }
  return to;
}

std::optional<HostTensor> Rows(const std::optional<ConstTensor>& from, const std::vector<int64_t>& at) {
  return from ? std::optional(Rows(*from, at)) : std::nullopt;
}

std::optional<HostTensor> Rows(const std::optional<Tensor>& from, const std::vector<int64_t>& at) {
  return from ? std::optional(Rows(kernel::AsConst(*from), at)) : std::nullopt;
}

// Converts the gradient of a reduction into one for each row.
void Unreduce(kernel::Reduction reduction, int64_t counted, HostTensor* g) {
  if (reduction == kernel::Reduction::kNone) return;
  for (int64_t i = 0; i < g->size(); ++i) {
    double value = -static_cast<double>(g->GetFloat(i));
    if (reduction == kernel::Reduction::kMean) value /= static_cast<double>(counted);
    g->SetFloat(i, static_cast<float>(value));
  }
}

std::optional<ConstTensor> View(const std::optional<HostTensor>& tensor) {
  return tensor ? std::optional(tensor->View()) : std::nullopt;
}

std::optional<Tensor> Judged(const std::optional<HostTensor>& tensor) {
  if (!tensor) return std::nullopt;
  const ConstTensor t = tensor->View();
  return Tensor{
      const_cast<void*>(t.data), t.dtype, t.rank, {t.shape[0], t.shape[1]}, {t.stride[0], t.stride[1]}};
}

}  // namespace

DumpExcerpt::DumpExcerpt(const Dump& dump, const DumpSample& sample, const kernel::Results& results,
                         const std::vector<int64_t>& at, int64_t counted)
    : weight(dump.problem.weight), ignore_index(dump.problem.ignore_index) {
  const kernel::Problem& p = sample.problem();
  for (const int64_t i : at) rows.push_back(sample.rows()[static_cast<size_t>(i)]);
  hidden = Rows(p.hidden, at);
  labels = HostTensor::Zeros(DType::kI64, {static_cast<int64_t>(at.size())});
  for (size_t i = 0; i < at.size(); ++i) {
    labels.SetInt(static_cast<int64_t>(i), oracle::ReadInt(p.labels, at[i]));
  }
  temperature = Rows(p.temperature, at);
  grad_logprob = Rows(p.grad_logprob, at);
  if (grad_logprob) Unreduce(p.reduction, counted, &*grad_logprob);
  grad_entropy = Rows(p.grad_entropy, at);
  logprob = Rows(results.logprob, at);
  entropy = Rows(results.entropy, at);
  lse = Rows(results.lse, at);
  grad_hidden = Rows(results.grad_hidden, at);
}

kernel::Problem DumpExcerpt::problem() const {
  kernel::Problem p;
  p.hidden = hidden.View();
  p.weight = weight;
  p.labels = labels.View();
  p.temperature = View(temperature);
  p.ignore_index = ignore_index;
  p.grad_logprob = View(grad_logprob);
  p.grad_entropy = View(grad_entropy);
  return p;
}

kernel::Results DumpExcerpt::results() const {
  kernel::Results r;
  r.logprob = Judged(logprob);
  r.entropy = Judged(entropy);
  r.lse = Judged(lse);
  r.grad_hidden = Judged(grad_hidden);
  return r;
}

}  // namespace plumbline::fuzz
