// SPDX-License-Identifier: Apache-2.0
//
// The operator on the host, as templates over the Defects policy (kernel/host/defects.h): a type with
// `bool Has(Defect) const` and a type `Dots`. host.cc instantiates NoDefects, which is the operator; a
// policy that answers at run time makes a mutant of it. Arguments, results and errors are those of
// kernel/linear_cross_entropy.h, with the number of threads in the place of the execution.
//
// Not installed: mutants are planted from within this repository.

#ifndef PLUMBLINE_KERNEL_HOST_OPERATOR_H_
#define PLUMBLINE_KERNEL_HOST_OPERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "kernel/checks.h"
#include "kernel/host/backward.h"
#include "kernel/host/defects.h"
#include "kernel/host/float_environment.h"
#include "kernel/host/forward.h"
#include "kernel/host/host.h"
#include "kernel/host/rows.h"
#include "kernel/host/workspace.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::host {

// Makes the plan, or returns the reason why there is none.
Status PlanFor(const Problem& problem, const Results& results, int threads, Plan* plan);

// Returns kInvalidData naming the first invalid row, or ok.
Status DataStatus(const Problem& problem, const RowCensus& census);

template <class Defects>
Status ForwardImpl(const Problem& problem, const Results& results, int threads, void* workspace,
                   void* saved, const Defects& defects) {
  Plan plan;
  Status status =
      Check(problem, results, {.forward_results = true, .input_data = true, .result_data = true});
  if (status.ok()) status = PlanFor(problem, results, threads, &plan);
  if (status.ok()) status = CheckMemory("workspace", workspace, plan.workspace_bytes);
  if (status.ok()) status = CheckMemory("saved", saved, plan.saved_bytes);
  if (!status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const RowCensus census = CountRows(problem, defects);
  ForwardPass(problem, results, plan, workspace, saved, census, defects);
  return DataStatus(problem, census);
}

template <class Defects>
Status BackwardImpl(const Problem& problem, const Results& results, int threads, void* workspace,
                    const void* saved, const Defects& defects) {
  Plan plan;
  Status status =
      Check(problem, results,
            {.backward_results = true, .input_data = true, .gradient_data = true, .result_data = true});
  if (status.ok()) status = PlanFor(problem, results, threads, &plan);
  if (!results.grad_hidden && !results.grad_weight) return status;
  if (status.ok()) status = CheckMemory("workspace", workspace, plan.workspace_bytes);
  if (status.ok()) status = CheckMemory("saved", saved, plan.saved_bytes);
  if (!status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const RowCensus census = CountRows(problem, defects);
  BackwardPass(problem, results, plan, workspace, saved, census, defects);
  return DataStatus(problem, census);
}

template <class Defects>
Status RunImpl(const Problem& problem, const Results& results, int threads, const Defects& defects) {
  const bool backward = results.grad_hidden || results.grad_weight;
  Status status = Check(problem, results,
                        {.forward_results = true,
                         .backward_results = true,
                         .input_data = true,
                         .gradient_data = backward,
                         .result_data = true});
  Sizes sizes;
  if (status.ok()) status = GetSizes(problem, results, threads, &sizes);
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
  const auto workspace = allocate(sizes.workspace);
  const auto saved = allocate(sizes.saved);
  if ((sizes.workspace > 0 && !workspace) || (sizes.saved > 0 && !saved)) {
    return Status::Error(Code::kFailed, "no memory for a workspace of " +
                                            std::to_string(sizes.workspace) + " and a saved state of " +
                                            std::to_string(sizes.saved) + " bytes");
  }
  status = ForwardImpl(problem, results, threads, workspace.get(), saved.get(), defects);
  // Invalid data does not stop the call: every output is written before it is reported.
  if (!backward || (!status.ok() && status.code != Code::kInvalidData)) return status;
  return BackwardImpl(problem, results, threads, workspace.get(), saved.get(), defects);
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_OPERATOR_H_
