// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/operator.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "kernel/checks.h"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/support/device.h"
#include "kernel/cuda/support/launch.h"
#include "kernel/saved_header.h"

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
                    const Keeping& keeping, Layout* layout) {
  Checks on_device = checks;
  on_device.host_memory = false;
  Status status = Check(problem, results, on_device);
  if (status.ok()) status = CheckExtent("hidden.shape[0]", problem.rows());
  if (status.ok()) status = CheckExtent("hidden.shape[1]", problem.hidden_size());
  if (status.ok()) status = CheckExtent("weight.shape[0]", problem.vocab());
  if (!status.ok()) return status;
  const std::optional<Layout> made = MakeLayout(problem, results, keeping);
  if (!made) return WorkspaceTooLarge(problem);
  *layout = *made;
  return Status::Ok();
}

// Return what Forward keeps in the saved state, and what ForwardBackward keeps in the workspace.
Keeping SavedOf(const Execution& execution) {
  return {execution.saved_logits_bytes, execution.kept_form, execution.saved_is_consumed};
}
Keeping KeptOf(const Execution& execution) {
  return {execution.kept_logits_bytes, execution.kept_form, true};
}

// Takes a layout that keeps at most `bytes` of logits, as the field `limit` of the execution says.
template <class Regions>
Status TakeLayout(const std::optional<Regions>& made, const char* limit, size_t bytes,
                  Regions* regions) {
  if (!made) {
    return Status::Error(Code::kInvalidArgument, std::string("execution.") + limit + " = " +
                                                     std::to_string(bytes) +
                                                     " makes more than 2^62 bytes of memory");
  }
  *regions = *made;
  return Status::Ok();
}

Status PlanSaved(const Layout& layout, const Execution& execution, SavedLayout* state) {
  return TakeLayout(MakeSavedLayout(layout), "saved_logits_bytes", execution.saved_logits_bytes, state);
}

Status PlanAtOnce(const Layout& layout, const Execution& execution, AtOnceLayout* regions) {
  return TakeLayout(MakeAtOnceLayout(layout), "kept_logits_bytes", execution.kept_logits_bytes,
                    regions);
}

const Path& BestPath(CudaPath asked, int capability) {
  if (asked == CudaPath::kSimt || capability < 80) return kSimtPath;
  return asked == CudaPath::kBest && capability == 90 ? kHopperPath : kPortablePath;
}

// What a call needs to know of the device.
struct OnDevice {
  const Path* path = nullptr;
  int capability = 0;  // 10 major + minor
  int clusters = 0;    // of two multiprocessors each
};

// Takes the best path for the current device where `path` is null.
Status LookAtDevice(CudaPath asked, const Path* path, OnDevice* device) {
  int capability = 0, multiprocessors = 0;
  Status status = GetComputeCapability(&capability);
  if (status.ok()) status = CountMultiprocessors(&multiprocessors);
  if (!status.ok()) return status;
  if (capability < 75) {
    return Status::Error(Code::kUnsupported, "the current CUDA device has compute capability " +
                                                 std::to_string(capability / 10) + "." +
                                                 std::to_string(capability % 10) +
                                                 "; 7.5 is the least");
  }
  *device = {path != nullptr ? path : &BestPath(asked, capability), capability,
             std::max(multiprocessors / 2, 1)};
  return status;
}

SavedHeader HeaderOf(const Problem& problem, CudaPath asked, const OnDevice& device) {
  SavedHeader header = SavedHeaderOf(problem);
  header.path = static_cast<int32_t>(asked);
  header.capability = device.capability;
  return header;
}

// Runs one pass: checks everything and lays out the memory, then calls `run`.
Status OnePass(const Checks& checks, const Path* path, const Problem& problem, const Results& results,
               const Execution& execution, void* workspace, const void* saved,
               Status (*run)(const Call&)) {
  Layout layout;
  SavedLayout state;
  OnDevice device;
  const Keeping keeping = SavedOf(execution);
  Status status = CheckAndPlan(problem, results, checks, keeping, &layout);
  if (checks.backward_results && !layout.has_backward) return status;  // nothing is asked for
  if (status.ok()) status = PlanSaved(layout, execution, &state);
  if (status.ok()) status = CheckMemory("workspace", workspace, layout.workspace_bytes);
  if (status.ok()) status = CheckMemory("saved", saved, state.bytes);
  if (status.ok()) status = LookAtDevice(execution.path, path, &device);
  if (!status.ok()) return status;
  layout = *MakeLayout(problem, results, keeping, device.clusters);
  // A backward pass writes through these only where the state is consumed.
  std::byte* const memory = static_cast<std::byte*>(const_cast<void*>(saved));
  const Kept kept = state.KeptAt(memory);
  return run({.problem = problem,
              .results = results,
              .layout = layout,
              .path = *device.path,
              .stream = static_cast<cudaStream_t>(execution.stream),
              .workspace = static_cast<std::byte*>(workspace),
              .saved = state.StateAt(memory, HeaderOf(problem, execution.path, device)),
              .consumed = keeping.consumed,
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
  Layout layout;
  SavedLayout state;
  Status status = CheckAndPlan(problem, results, kSizesUse, SavedOf(execution), &layout);
  if (status.ok()) status = PlanSaved(layout, execution, &state);
  if (status.ok()) *sizes = {layout.workspace_bytes, state.bytes};
  return status;
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved, const Path* path) {
  return OnePass(kForwardUses, path, problem, results, execution, workspace, saved, RunForward);
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved, const Path* path) {
  return OnePass(kBackwardUses, path, problem, results, execution, workspace, saved, RunBackward);
}

Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace) {
  Layout layout;
  AtOnceLayout regions;
  Status status = CheckAndPlan(problem, results, kSizesUse, KeptOf(execution), &layout);
  if (status.ok()) status = PlanAtOnce(layout, execution, &regions);
  if (status.ok()) *workspace = regions.bytes;
  return status;
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace, const Path* path) {
  Layout layout;
  AtOnceLayout regions;
  OnDevice device;
  Status status = CheckAndPlan(problem, results, kForwardBackwardUses, KeptOf(execution), &layout);
  if (status.ok()) status = PlanAtOnce(layout, execution, &regions);
  if (status.ok()) status = CheckMemory("workspace", workspace, regions.bytes);
  if (status.ok()) status = LookAtDevice(execution.path, path, &device);
  if (!status.ok()) return status;
  layout = *MakeLayout(problem, results, KeptOf(execution), device.clusters);
  std::byte* const memory = static_cast<std::byte*>(workspace);
  const auto floats = [memory](size_t at) { return reinterpret_cast<float*>(memory + at); };
  Kept kept = regions.state.KeptAt(memory + regions.saved);
  const bool asks = upstream.function != nullptr && layout.has_backward && layout.n > 0;
  if (asks) {
    kept.logprob = floats(regions.logprob);
    kept.entropy = floats(regions.entropy);
    kept.lse = floats(regions.lse);
  }
  Problem known = problem;
  const Call call = {
      .problem = known,
      .results = results,
      .layout = layout,
      .path = *device.path,
      .stream = static_cast<cudaStream_t>(execution.stream),
      .workspace = memory + regions.passes,
      .saved = regions.state.StateAt(memory + regions.saved, HeaderOf(problem, execution.path, device)),
      .kept = layout.has_backward ? &kept : nullptr};
  status = RunForward(call);
  if (status.ok() && asks) {
    status = AskUpstream(upstream, kept, floats(regions.grad_logprob), floats(regions.grad_entropy),
                         layout.n, call.stream, &known);
  }
  return status.ok() && layout.has_backward ? RunBackward(call) : status;
}

}  // namespace plumbline::kernel::cuda
