// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/excerpt.h"

#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using kernel::Tensor;

std::optional<HostTensor> RowsAt(const std::optional<ConstTensor>& from,
                                 const std::vector<int64_t>& at) {
  return from ? std::optional(GatherRows(*from, at)) : std::nullopt;
}

std::optional<HostTensor> RowsAt(const std::optional<Tensor>& from, const std::vector<int64_t>& at) {
  return from ? std::optional(GatherRows(kernel::AsConst(*from), at)) : std::nullopt;
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

std::optional<Tensor> ResultView(const std::optional<HostTensor>& tensor) {
  return tensor ? std::optional(AsResult(tensor->View())) : std::nullopt;
}

}  // namespace

DumpExcerpt::DumpExcerpt(const DumpSample& sample, const kernel::Results& results,
                         const std::vector<int64_t>& at, int64_t counted)
    : weight(sample.problem().weight), ignore_index(sample.problem().ignore_index) {
  const kernel::Problem& p = sample.problem();
  for (const int64_t i : at) rows.push_back(sample.rows()[static_cast<size_t>(i)]);
  hidden = GatherRows(p.hidden, at);
  labels = LabelsAs(kernel::DType::kI64, GatherRows(p.labels, at));
  temperature = RowsAt(p.temperature, at);
  grad_logprob = RowsAt(p.grad_logprob, at);
  if (grad_logprob) Unreduce(p.reduction, counted, &*grad_logprob);
  grad_entropy = RowsAt(p.grad_entropy, at);
  logprob = RowsAt(results.logprob, at);
  entropy = RowsAt(results.entropy, at);
  lse = RowsAt(results.lse, at);
  grad_hidden = RowsAt(results.grad_hidden, at);
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
  r.logprob = ResultView(logprob);
  r.entropy = ResultView(entropy);
  r.lse = ResultView(lse);
  r.grad_hidden = ResultView(grad_hidden);
  return r;
}

}  // namespace plumbline::fuzz
