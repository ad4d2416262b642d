// SPDX-License-Identifier: Apache-2.0

#include "kernel/linear_cross_entropy.h"

#include <string>

#include "kernel/host/host.h"

namespace plumbline::kernel {
namespace {

Status CheckDevice(const Execution& execution) {
  switch (execution.device) {
    case Device::kHost:
      return Status::Ok();
    case Device::kCuda:
      return Status::Error(Code::kUnsupported,
                           "execution.device = cuda: this build has no CUDA implementation");
  }
  return Status::Error(
      Code::kInvalidArgument,
      "execution.device = " + std::to_string(static_cast<int>(execution.device)) + " is not a device");
}

}  // namespace

Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes) {
  Status status = CheckDevice(execution);
  return status.ok() ? host::GetSizes(problem, results, execution.threads, sizes) : status;
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved) {
  Status status = CheckDevice(execution);
  return status.ok() ? host::Forward(problem, results, execution.threads, workspace, saved) : status;
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved) {
  Status status = CheckDevice(execution);
  return status.ok() ? host::Backward(problem, results, execution.threads, workspace, saved) : status;
}

Status Run(const Problem& problem, const Results& results, const Execution& execution) {
  Status status = CheckDevice(execution);
  return status.ok() ? host::Run(problem, results, execution.threads) : status;
}

}  // namespace plumbline::kernel
