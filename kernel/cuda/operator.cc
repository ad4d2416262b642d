// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/operator.h"

#include <cstddef>

#include "kernel/checks.h"
#include "kernel/cuda/call.h"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/pass/pass.h"

namespace plumbline::kernel::cuda {
namespace {

// Returns what Forward keeps in the saved state.
Keeping SavedOf(const Execution& execution, int64_t chunk_columns) {
  return {.bytes = execution.saved_logits_bytes,
          .form = execution.kept_form,
          .consumed = execution.saved_is_consumed,
          .chunk_columns = chunk_columns};
}

Status PlanSaved(const Layout& layout, const Execution& execution, SavedLayout* state) {
  return TakeLayout(MakeSavedLayout(layout), "saved_logits_bytes", execution.saved_logits_bytes, state);
}

// Runs one pass: checks everything and lays out the memory, then calls `run`.
Status OnePass(const Checks& checks, const Path* path, const Problem& problem, const Results& results,
               const Execution& execution, void* workspace, const void* saved, int64_t chunk_columns,
               Status (*run)(const Call&)) {
  Layout layout;
  SavedLayout state;
  OnDevice device;
  const Keeping keeping = SavedOf(execution, chunk_columns);
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

}  // namespace

bool Built() { return true; }

Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes, int64_t chunk_columns) {
  Layout layout;
  SavedLayout state;
  const Keeping keeping = SavedOf(execution, chunk_columns);
  Status status = CheckAndPlan(problem, results, kSizesUse, keeping, &layout);
  if (status.ok()) status = PlanSaved(layout, execution, &state);
  if (status.ok()) *sizes = {layout.workspace_bytes, state.bytes};
  return status;
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved, const Path* path, int64_t chunk_columns) {
  return OnePass(kForwardUses, path, problem, results, execution, workspace, saved, chunk_columns,
                 RunForward);
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved, const Path* path, int64_t chunk_columns) {
  return OnePass(kBackwardUses, path, problem, results, execution, workspace, saved, chunk_columns,
                 RunBackward);
}

}  // namespace plumbline::kernel::cuda
