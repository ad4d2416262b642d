// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/operator.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "kernel/checks.h"
#include "kernel/cuda/layout/row_blocks.h"
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

// Refuses what can be refused of gradients in forward without a device, and plans the rest for one of
// so many clusters.
Status CheckAndPlanAtOnce(const Problem& problem, const Results& results, const Checks& checks,
                          const Execution& execution, AtOnceLayout* regions) {
  Layout of_all;
  const Status status = CheckAndPlan(problem, results, checks, KeptOf(execution), &of_all);
  if (!status.ok()) return status;
  if (execution.block_rows < 0) {
    return Status::Error(
        Code::kInvalidArgument,
        "execution.block_rows = " + std::to_string(execution.block_rows) + " is negative");
  }
  return TakeLayout(
      MakeAtOnceLayout(problem, results, KeptOf(execution), RowsOfBlock(problem, results, execution)),
      "kept_logits_bytes", execution.kept_logits_bytes, regions);
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
              .kept = state.KeepsLogits() ? &kept : nullptr,
              .needs_entropy = layout.has_backward || results.entropy.has_value(),
              .range = {0, layout.n}});
}

// Calls the function with a block of rows from `first` on. The block's upstream gradients become what
// it writes.
Status AskUpstream(const UpstreamGradients& upstream, const Kept& kept, float* g, float* k,
                   int64_t first, int64_t rows, cudaStream_t stream, Problem* problem) {
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
  return upstream.function(upstream.context, {.first = first,
                                              .rows = rows,
                                              .logprob = kept.logprob,
                                              .entropy = kept.entropy,
                                              .lse = kept.lse,
                                              .grad_logprob = g,
                                              .grad_entropy = k,
                                              .stream = stream});
}

// One call of gradients in forward, block by block.
struct BlocksOfCall {
  const Problem& problem;
  const Results& results;
  const Execution& execution;
  const UpstreamGradients& upstream;
  const AtOnceLayout& regions;
  std::byte* workspace;
  const OnDevice& device;

  // Enqueues both passes of the block that begins at row `first`.
  Status Run(int64_t first) const {
    const int64_t all = problem.rows();
    const bool several = regions.rows < all;
    const RowBlockLayout& own = all - first < regions.rows ? regions.last : regions.block;
    const Layout& layout = own.passes;
    Problem known = RowsOf(problem, first, layout.n);
    const Results written = RowsOf(results, first, layout.n);
    Kept kept = own.state.KeptAt(workspace + regions.saved);
    const bool asks = upstream.function != nullptr && layout.has_backward && layout.n > 0;
    if (asks) {
      kept.logprob = Floats(regions.logprob);
      kept.entropy = Floats(regions.entropy);
      kept.lse = Floats(regions.lse);
    }
    const Call call = {
        .problem = known,
        .results = written,
        .layout = layout,
        .path = *device.path,
        .stream = static_cast<cudaStream_t>(execution.stream),
        .workspace = workspace + regions.passes,
        .saved = own.state.StateAt(workspace + regions.saved, HeaderOf(known, execution.path, device)),
        .kept = layout.has_backward ? &kept : nullptr,
        .needs_entropy = asks || results.entropy || (layout.has_backward && problem.grad_entropy),
        .range = {first, all},
        .row_logprob = several && results.loss ? Floats(regions.row_logprob) : nullptr,
        .weight_sums = several && results.grad_weight ? Floats(regions.weight_sums) : nullptr};
    Status status = RunForward(call);
    if (status.ok() && asks) {
      status = AskUpstream(upstream, kept, Floats(regions.grad_logprob), Floats(regions.grad_entropy),
                           first, layout.n, call.stream, &known);
    }
    return status.ok() && layout.has_backward ? RunBackward(call) : status;
  }

 private:
  float* Floats(size_t at) const { return reinterpret_cast<float*>(workspace + at); }
};

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
  AtOnceLayout regions;
  const Status status = CheckAndPlanAtOnce(problem, results, kSizesUse, execution, &regions);
  if (status.ok()) *workspace = regions.bytes;
  return status;
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace, const Path* path) {
  AtOnceLayout regions;
  OnDevice device;
  Status status = CheckAndPlanAtOnce(problem, results, kForwardBackwardUses, execution, &regions);
  if (status.ok()) status = CheckMemory("workspace", workspace, regions.bytes);
  if (status.ok()) status = LookAtDevice(execution.path, path, &device);
  if (!status.ok()) return status;
  regions = *MakeAtOnceLayout(problem, results, KeptOf(execution), regions.rows, device.clusters);
  const BlocksOfCall blocks = {
      problem, results, execution, upstream, regions, static_cast<std::byte*>(workspace), device};
  const int64_t all = problem.rows();
  int64_t first = 0;
  do {
    status = blocks.Run(first);
    first += regions.rows;
  } while (status.ok() && first < all);
  return status;
}

}  // namespace plumbline::kernel::cuda
