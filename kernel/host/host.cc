// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/host.h"

#include <optional>
#include <string>

#include "kernel/host/operator.h"

namespace plumbline::kernel::host {

Status PlanFor(const Problem& problem, const Results& results, const Checks& checks, int threads,
               Plan* plan, bool stretches) {
  Status status = Check(problem, results, checks);
  if (!status.ok()) return status;
  if (threads < 0) {
    return Status::Error(Code::kInvalidArgument,
                         "execution.threads = " + std::to_string(threads) + " is negative");
  }
  const std::optional<Plan> made = MakePlan(problem, results, threads, stretches);
  if (!made) return WorkspaceTooLarge(problem);
  *plan = *made;
  return status;
}

Status CheckMemories(const Plan& plan, const void* workspace, const void* saved) {
  const Status status = CheckMemory("workspace", workspace, plan.workspace_bytes);
  return status.ok() ? CheckMemory("saved", saved, plan.saved_bytes) : status;
}

Status DataStatus(const Problem& problem, const RowCensus& census) {
  if (census.first_invalid < 0) return Status::Ok();
  return Status::Error(Code::kInvalidData, DescribeInvalidRow(problem, census.first_invalid));
}

Status GetSizes(const Problem& problem, const Results& results, int threads, Sizes* sizes) {
  return SizesImpl(problem, results, threads, sizes, NoHooks());
}

Status Forward(const Problem& problem, const Results& results, int threads, void* workspace,
               void* saved) {
  return ForwardImpl(problem, results, threads, workspace, saved, NoHooks());
}

Status Backward(const Problem& problem, const Results& results, int threads, void* workspace,
                const void* saved) {
  return BackwardImpl(problem, results, threads, workspace, saved, NoHooks());
}

Status Run(const Problem& problem, const Results& results, int threads) {
  return RunImpl(problem, results, threads, NoHooks());
}

}  // namespace plumbline::kernel::host
