// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/checks.h"
#include "kernel/host/host.h"
#include "kernel/host/operator.h"

namespace plumbline::kernel::host {
namespace {

// Offsets in the workspace: the rows' results and gradients as the function of upstream gradients sees
// them, the saved state, and the memory of the two passes.
struct Regions {
  size_t logprob = 0, entropy = 0, lse = 0, grad_logprob = 0, grad_entropy = 0, saved = 0, passes = 0;
  size_t bytes = 0;
};

Regions RegionsOf(const Problem& problem, const Plan& plan) {
  Regions regions;
  const auto take = [&regions](size_t bytes) {
    const size_t at = regions.bytes;
    regions.bytes += (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
    return at;
  };
  if (plan.saved_bytes > 0) {  // a gradient is asked for
    const size_t vector = static_cast<size_t>(problem.rows()) * sizeof(float);
    for (size_t* region : {&regions.logprob, &regions.entropy, &regions.lse, &regions.grad_logprob,
                           &regions.grad_entropy})
      *region = take(vector);
    regions.saved = take(plan.saved_bytes);
  }
  regions.passes = take(plan.workspace_bytes);
  return regions;
}

Tensor DenseRows(const Problem& problem, float* data) {
  return {data, DType::kF32, 1, {problem.rows(), 1}, {1, 1}};
}

void CopyRows(const float* from, int64_t rows, const std::optional<Tensor>& to) {
  if (!to) return;
  for (int64_t i = 0; i < rows; ++i) static_cast<float*>(to->data)[i * to->stride[0]] = from[i];
}

}  // namespace

Status GetForwardBackwardSize(const Problem& problem, const Results& results, int threads,
                              size_t* workspace) {
  Plan plan;
  Status status = PlanFor(problem, results, kSizesUse, threads, &plan);
  if (status.ok()) *workspace = RegionsOf(problem, plan).bytes;
  return status;
}

Status ForwardBackward(const Problem& problem, const Results& results, int threads,
                       const UpstreamGradients& upstream, void* workspace) {
  Plan plan;
  Status status = PlanFor(problem, results, kForwardBackwardUses, threads, &plan);
  if (!status.ok()) return status;
  const Regions regions = RegionsOf(problem, plan);
  status = CheckMemory("workspace", workspace, regions.bytes);
  if (!status.ok()) return status;
  std::byte* const memory = static_cast<std::byte*>(workspace);
  const auto floats = [memory](size_t at) { return reinterpret_cast<float*>(memory + at); };
  void* const passes = memory + regions.passes;
  void* const saved = memory + regions.saved;
  const int64_t n = problem.rows();
  const bool called = upstream.function != nullptr && plan.saved_bytes > 0;
  Results forward = results;
  if (called) {
    forward.logprob = DenseRows(problem, floats(regions.logprob));
    forward.entropy = DenseRows(problem, floats(regions.entropy));
    forward.lse = DenseRows(problem, floats(regions.lse));
  }
  status = Forward(problem, forward, threads, passes, saved);
  // Invalid data does not stop the call: every output is written before it is reported.
  if (!status.ok() && status.code != Code::kInvalidData) return status;
  if (!results.grad_hidden && !results.grad_weight) return status;
  Problem known = problem;
  if (called) {
    CopyRows(floats(regions.logprob), n, results.logprob);
    CopyRows(floats(regions.entropy), n, results.entropy);
    CopyRows(floats(regions.lse), n, results.lse);
    float* const g = floats(regions.grad_logprob);
    float* const k = floats(regions.grad_entropy);
    std::fill_n(g, n, 0.0f);
    std::fill_n(k, n, 0.0f);
    Status said = upstream.function(upstream.context, {.rows = n,
                                                       .logprob = floats(regions.logprob),
                                                       .entropy = floats(regions.entropy),
                                                       .lse = floats(regions.lse),
                                                       .grad_logprob = g,
                                                       .grad_entropy = k});
    if (!said.ok()) return said;
    known.grad_logprob = AsConst(DenseRows(problem, g));
    known.grad_entropy = AsConst(DenseRows(problem, k));
  }
  return Backward(known, results, threads, passes, saved);
}

}  // namespace plumbline::kernel::host
