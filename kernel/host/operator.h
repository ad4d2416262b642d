// SPDX-License-Identifier: Apache-2.0
//
// The operator on the host, as templates over the policy Hooks (kernel/host/hooks.h). host.cc
// instantiates NoHooks, which is the operator. Arguments, results and errors are those of
// kernel/linear_cross_entropy.h, with the number of threads in the place of the execution.

#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "kernel/checks.h"
#include "kernel/host/backward.h"
#include "kernel/host/float_environment.h"
#include "kernel/host/forward.h"
#include "kernel/host/hooks.h"
#include "kernel/host/host.h"
#include "kernel/host/rows.h"
#include "kernel/host/workspace.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::host {

// Checks the arguments and makes the plan, or returns the reason why there is none. `stretches`: that
// of MakePlan.
Status PlanFor(const Problem& problem, const Results& results, const Checks& checks, int threads,
               Plan* plan, bool stretches = false);

// Checks the memory of a pass.
Status CheckMemories(const Plan& plan, const void* workspace, const void* saved);

// Returns kInvalidData naming the first invalid row, or ok.
Status DataStatus(const Problem& problem, const RowCensus& census);

// Says the memory that both passes need.
template <class Hooks>
Status SizesImpl(const Problem& problem, const Results& results, int threads, Sizes* sizes,
                 const Hooks&) {
  Plan plan;
  const Status status = PlanFor(problem, results, kSizesUse, threads, &plan, Hooks::Dots::kStretches);
  if (status.ok()) *sizes = {plan.workspace_bytes, plan.saved_bytes};
  return status;
}

template <class Hooks>
Status ForwardImpl(const Problem& problem, const Results& results, int threads, void* workspace,
                   void* saved, const Hooks& hooks) {
  Plan plan;
  Status status = PlanFor(problem, results, kForwardUses, threads, &plan, Hooks::Dots::kStretches);
  if (status.ok()) status = CheckMemories(plan, workspace, saved);
  if (!status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const RowCensus census = CountRows(problem, hooks);
  ForwardPass(problem, results, plan, workspace, saved, census, hooks);
  return DataStatus(problem, census);
}

template <class Hooks>
Status BackwardImpl(const Problem& problem, const Results& results, int threads, void* workspace,
                    const void* saved, const Hooks& hooks) {
  Plan plan;
  Status status = PlanFor(problem, results, kBackwardUses, threads, &plan, Hooks::Dots::kStretches);
  if (!results.grad_hidden && !results.grad_weight) return status;
  if (status.ok()) status = CheckMemories(plan, workspace, saved);
  if (!status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const RowCensus census = CountRows(problem, hooks);
  BackwardPass(problem, results, plan, workspace, saved, census, hooks);
  return DataStatus(problem, census);
}

template <class Hooks>
Status RunImpl(const Problem& problem, const Results& results, int threads, const Hooks& hooks) {
  const bool backward = results.grad_hidden || results.grad_weight;
  Checks checks = kForwardBackwardUses;
  checks.gradient_data = backward;
  Plan plan;
  Status status = PlanFor(problem, results, checks, threads, &plan, Hooks::Dots::kStretches);
  if (!status.ok()) return status;
  struct Free {
    void operator()(void* memory) const {
      ::operator delete (memory, std::align_val_t{kMemoryAlignment});
    }
  };
  const auto allocate = [](size_t bytes) {
    if (bytes == 0) return std::unique_ptr<void, Free>();
    return std::unique_ptr<void, Free>(
        ::operator new (bytes, std::align_val_t{kMemoryAlignment}, std::nothrow));
  };
  const auto workspace = allocate(plan.workspace_bytes);
  const auto saved = allocate(plan.saved_bytes);
  if ((plan.workspace_bytes > 0 && !workspace) || (plan.saved_bytes > 0 && !saved)) {
    return Status::Error(Code::kFailed,
                         "no memory for a workspace of " + std::to_string(plan.workspace_bytes) +
                             " and a saved state of " + std::to_string(plan.saved_bytes) + " bytes");
  }
  status = ForwardImpl(problem, results, threads, workspace.get(), saved.get(), hooks);
  // Invalid data does not stop the call: every output is written before it is reported.
  if (!backward || (!status.ok() && status.code != Code::kInvalidData)) return status;
  return BackwardImpl(problem, results, threads, workspace.get(), saved.get(), hooks);
}

}  // namespace plumbline::kernel::host
