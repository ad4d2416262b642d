// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/operator.h"

#include <cstdint>
#include <optional>
#include <string>

#include "kernel/checks.h"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/support/device.h"
#include "kernel/cuda/support/launch.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int64_t kMostIndex = (int64_t{1} << 31) - 1;

// TMA and the lists of rows index with 32 bits.
Status CheckExtent(const char* name, int64_t extent) {
  if (extent <= kMostIndex) return Status::Ok();
  return Status::Error(Code::kUnsupported, std::string(name) + " = " + std::to_string(extent) +
                                               ": the CUDA implementation goes up to 2^31 - 1");
}

// Refuses what can be refused without a device, and plans the rest.
Status CheckAndPlan(const Problem& problem, const Results& results, const Checks& checks,
                    size_t kept_logits_bytes, Layout* layout) {
  Status status = Check(problem, results, checks);
  if (status.ok()) status = CheckExtent("hidden.shape[0]", problem.rows());
  if (status.ok()) status = CheckExtent("hidden.shape[1]", problem.hidden_size());
  if (status.ok()) status = CheckExtent("weight.shape[0]", problem.vocab());
  if (!status.ok()) return status;
  const std::optional<Layout> made = MakeLayout(problem, results, kept_logits_bytes);
  if (!made) return WorkspaceTooLarge(problem);
  *layout = *made;
  return Status::Ok();
}

Status TooManyLogits(const char* limit, size_t bytes) {
  return Status::Error(Code::kInvalidArgument, std::string("execution.") + limit + " = " +
                                                   std::to_string(bytes) +
                                                   " makes more than 2^62 bytes of memory");
}

Status PlanSaved(const Layout& layout, const Execution& execution, SavedLayout* state) {
  const std::optional<SavedLayout> made = MakeSavedLayout(layout);
  if (!made) return TooManyLogits("saved_logits_bytes", execution.saved_logits_bytes);
  *state = *made;
  return Status::Ok();
}

Status PlanAtOnce(const Layout& layout, const Execution& execution, AtOnceLayout* regions) {
  const std::optional<AtOnceLayout> made = MakeAtOnceLayout(layout);
  if (!made) return TooManyLogits("kept_logits_bytes", execution.kept_logits_bytes);
  *regions = *made;
  return Status::Ok();
}

const Path& BestPath(CudaPath asked, int capability) {
  if (asked == CudaPath::kSimt || capability < 80) return kSimtPath;
  return asked == CudaPath::kBest && capability == 90 ? kHopperPath : kPortablePath;
}

Status ChoosePath(PathChoice choose, CudaPath asked, const Path** path) {
  int capability = 0;
  const Status status = GetComputeCapability(&capability);
  if (!status.ok()) return status;
  if (capability < 75) {
    return Status::Error(Code::kUnsupported, "the current CUDA device has compute capability " +
                                                 std::to_string(capability / 10) + "." +
                                                 std::to_string(capability % 10) +
                                                 "; 7.5 is the least");
  }
  *path = &choose(asked, capability);
  return status;
}

// Runs one pass: checks everything and lays out the memory, then calls `run`.
template <class Run>
Status OnePass(const Checks& checks, PathChoice choose, const Problem& problem, const Results& results,
               const Execution& execution, void* workspace, const void* saved, Run run) {
  Layout layout;
  SavedLayout state;
  const Path* path = nullptr;
  Status status = CheckAndPlan(problem, results, checks, execution.saved_logits_bytes, &layout);
  if (checks.backward_results && !layout.has_backward) return status;  // nothing is asked for
  if (status.ok()) status = PlanSaved(layout, execution, &state);
  if (status.ok()) status = CheckMemory("workspace", workspace, layout.workspace_bytes);
  if (status.ok()) status = CheckMemory("saved", saved, state.bytes);
  if (status.ok()) status = ChoosePath(choose, execution.path, &path);
  if (!status.ok()) return status;
  // A backward pass never writes through `kept`.
  const Kept kept = state.At(static_cast<std::byte*>(const_cast<void*>(saved)));
  return run(Call{.problem = problem,
                  .results = results,
                  .layout = layout,
                  .path = *path,
                  .stream = static_cast<cudaStream_t>(execution.stream),
                  .workspace = static_cast<std::byte*>(workspace),
                  .kept = state.KeepsLogits() ? &kept : nullptr});
}

// Calls the function with all rows as one block. The problem's upstream gradients become what it
// writes.
Status AskUpstream(const UpstreamGradients& upstream, const Kept& kept, float* g, float* k,
                   int64_t rows, cudaStream_t stream, Problem* problem) {
  for (float* const vector : {g, k}) {
    const Status zeroed =
        FromCuda(cudaMemsetAsync(vector, 0, static_cast<size_t>(rows) * sizeof(float), stream),
                 "cudaMemsetAsync");
    if (!zeroed.ok()) return zeroed;
  }
  const auto dense = [rows](const float* data) {
    return ConstTensor{data, DType::kF32, 1, {rows, 1}, {1, 1}};
  };
  problem->grad_logprob = dense(g);
  problem->grad_entropy = dense(k);
  return upstream.function(upstream.context, {.rows = rows,
                                              .logprob = kept.logprob,
                                              .entropy = kept.entropy,
                                              .lse = kept.lse,
                                              .grad_logprob = g,
                                              .grad_entropy = k,
                                              .stream = stream});
}

}  // namespace

bool Built() { return true; }

Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes) {
  constexpr Checks kChecks = {.forward_results = true, .backward_results = true, .host_memory = false};
  Layout layout;
  SavedLayout state;
  Status status = CheckAndPlan(problem, results, kChecks, execution.saved_logits_bytes, &layout);
  if (status.ok()) status = PlanSaved(layout, execution, &state);
  if (status.ok()) *sizes = {layout.workspace_bytes, state.bytes};
  return status;
}

Status ForwardOn(PathChoice choose, const Problem& problem, const Results& results,
                 const Execution& execution, void* workspace, void* saved) {
  constexpr Checks kChecks = {
      .forward_results = true, .input_data = true, .result_data = true, .host_memory = false};
  return OnePass(
      kChecks, choose, problem, results, execution, workspace, saved, [saved](const Call& call) {
        return RunForward(call, call.layout.has_backward ? static_cast<SavedRow*>(saved) : nullptr);
      });
}

Status BackwardOn(PathChoice choose, const Problem& problem, const Results& results,
                  const Execution& execution, void* workspace, const void* saved) {
  constexpr Checks kChecks = {.backward_results = true,
                              .input_data = true,
                              .gradient_data = true,
                              .result_data = true,
                              .host_memory = false};
  return OnePass(
      kChecks, choose, problem, results, execution, workspace, saved,
      [saved](const Call& call) { return RunBackward(call, static_cast<const SavedRow*>(saved)); });
}

Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace) {
  constexpr Checks kChecks = {.forward_results = true, .backward_results = true, .host_memory = false};
  Layout layout;
  AtOnceLayout regions;
  Status status = CheckAndPlan(problem, results, kChecks, execution.kept_logits_bytes, &layout);
  if (status.ok()) status = PlanAtOnce(layout, execution, &regions);
  if (status.ok()) *workspace = regions.bytes;
  return status;
}

Status ForwardBackwardOn(PathChoice choose, const Problem& problem, const Results& results,
                         const Execution& execution, const UpstreamGradients& upstream,
                         void* workspace) {
  constexpr Checks kChecks = {.forward_results = true,
                              .backward_results = true,
                              .input_data = true,
                              .gradient_data = true,
                              .result_data = true,
                              .host_memory = false};
  Layout layout;
  AtOnceLayout regions;
  const Path* path = nullptr;
  Status status = CheckAndPlan(problem, results, kChecks, execution.kept_logits_bytes, &layout);
  if (status.ok()) status = PlanAtOnce(layout, execution, &regions);
  if (status.ok()) status = CheckMemory("workspace", workspace, regions.bytes);
  if (status.ok()) status = ChoosePath(choose, execution.path, &path);
  if (!status.ok()) return status;
  std::byte* const memory = static_cast<std::byte*>(workspace);
  const auto floats = [memory](size_t at) { return reinterpret_cast<float*>(memory + at); };
  Kept kept = regions.state.At(memory + regions.saved);
  const bool asks = upstream.function != nullptr && layout.has_backward && layout.n > 0;
  if (asks) {
    kept.logprob = floats(regions.logprob);
    kept.entropy = floats(regions.entropy);
    kept.lse = floats(regions.lse);
  }
  Problem known = problem;
  const Call call = {.problem = known,
                     .results = results,
                     .layout = layout,
                     .path = *path,
                     .stream = static_cast<cudaStream_t>(execution.stream),
                     .workspace = memory + regions.passes,
                     .kept = layout.has_backward ? &kept : nullptr};
  auto* const saved =
      layout.has_backward ? reinterpret_cast<SavedRow*>(memory + regions.saved) : nullptr;
  status = RunForward(call, saved);
  if (status.ok() && asks) {
    status = AskUpstream(upstream, kept, floats(regions.grad_logprob), floats(regions.grad_entropy),
                         layout.n, call.stream, &known);
  }
  return status.ok() && layout.has_backward ? RunBackward(call, saved) : status;
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved) {
  return ForwardOn(BestPath, problem, results, execution, workspace, saved);
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved) {
  return BackwardOn(BestPath, problem, results, execution, workspace, saved);
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace) {
  return ForwardBackwardOn(BestPath, problem, results, execution, upstream, workspace);
}

}  // namespace plumbline::kernel::cuda
