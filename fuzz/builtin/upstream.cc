// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/upstream.h"

namespace plumbline::fuzz {
namespace {

// The view of a tensor from row `first` of the problem on.
template <class Tensor>
StridedFloats From(const std::optional<Tensor>& vector, int64_t first) {
  if (!vector) return {};
  return {static_cast<const float*>(vector->data) + first * vector->stride[0], vector->stride[0]};
}

}  // namespace

UpstreamOfProblem::UpstreamOfProblem(const kernel::Problem& problem, const kernel::Results& results)
    : problem_(problem), results_(results) {
  if (problem.reduction != kernel::Reduction::kNone) return;
  grad_logprob_ = problem.grad_logprob;
  grad_entropy_ = problem.grad_entropy;
  problem_.grad_logprob.reset();
  problem_.grad_entropy.reset();
}

kernel::UpstreamGradients UpstreamOfProblem::gradients() {
  if (problem_.reduction != kernel::Reduction::kNone) return {};
  return {&Answer, this};
}

kernel::Status UpstreamOfProblem::Answer(void* self, const kernel::RowBlock& block) {
  const auto& of = *static_cast<const UpstreamOfProblem*>(self);
  CopyUpstream copy;
  copy.rows = block.rows;
  copy.handed[0] = block.logprob;
  copy.handed[1] = block.entropy;
  copy.handed[2] = block.lse;
  copy.written[0] = From(of.results_.logprob, block.first);
  copy.written[1] = From(of.results_.entropy, block.first);
  copy.written[2] = From(of.results_.lse, block.first);
  copy.grad_logprob = From(of.grad_logprob_, block.first);
  copy.grad_entropy = From(of.grad_entropy_, block.first);
  copy.to_logprob = block.grad_logprob;
  copy.to_entropy = block.grad_entropy;
  return Enqueue(copy, block.stream);
}

}  // namespace plumbline::fuzz
