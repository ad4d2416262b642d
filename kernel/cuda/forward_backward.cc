// SPDX-License-Identifier: Apache-2.0
//
// Gradients in forward: both passes of one block of rows after another.

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel/checks.h"
#include "kernel/cuda/call.h"
#include "kernel/cuda/layout/row_blocks.h"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/operator.h"
#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/support/launch.h"

namespace plumbline::kernel::cuda {
namespace {

// Returns what ForwardBackward keeps in the workspace.
Keeping KeptOf(const Execution& execution, int64_t chunk_columns) {
  return {.bytes = execution.kept_logits_bytes,
          .form = execution.kept_form,
          .consumed = true,
          .chunk_columns = chunk_columns};
}

// Refuses what can be refused of gradients in forward without a device, and lays out the memory.
Status CheckAndPlanAtOnce(const Problem& problem, const Results& results, const Checks& checks,
                          const Execution& execution, const Keeping& keeping, AtOnceLayout* regions) {
  Layout of_all;
  const Status status = CheckAndPlan(problem, results, checks, keeping, &of_all);
  if (!status.ok()) return status;
  if (execution.block_rows < 0) {
    return Status::Error(
        Code::kInvalidArgument,
        "execution.block_rows = " + std::to_string(execution.block_rows) + " is negative");
  }
  return TakeLayout(
      MakeAtOnceLayout(problem, results, keeping, RowsOfBlock(problem, results, execution)),
      "kept_logits_bytes", execution.kept_logits_bytes, regions);
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

Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace, int64_t chunk_columns) {
  AtOnceLayout regions;
  const Status status = CheckAndPlanAtOnce(problem, results, kSizesUse, execution,
                                           KeptOf(execution, chunk_columns), &regions);
  if (status.ok()) *workspace = regions.bytes;
  return status;
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace, const Path* path,
                       int64_t chunk_columns) {
  AtOnceLayout regions;
  OnDevice device;
  const Keeping keeping = KeptOf(execution, chunk_columns);
  Status status =
      CheckAndPlanAtOnce(problem, results, kForwardBackwardUses, execution, keeping, &regions);
  if (status.ok()) status = CheckMemory("workspace", workspace, regions.bytes);
  if (status.ok()) status = LookAtDevice(execution.path, path, &device);
  if (!status.ok()) return status;
  regions = *MakeAtOnceLayout(problem, results, keeping, regions.rows, device.clusters);
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
