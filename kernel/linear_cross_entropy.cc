// SPDX-License-Identifier: Apache-2.0

#include "kernel/linear_cross_entropy.h"

#include <string>

#include "kernel/cuda/cuda.h"
#include "kernel/host/host.h"

namespace plumbline::kernel {
namespace {

Status UnknownDevice(const Execution& execution) {
  return Status::Error(
      Code::kInvalidArgument,
      "execution.device = " + std::to_string(static_cast<int>(execution.device)) + " is not a device");
}

}  // namespace

Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes) {
  switch (execution.device) {
    case Device::kHost:
      return host::GetSizes(problem, results, execution.threads, sizes);
    case Device::kCuda:
      return cuda::GetSizes(problem, results, execution, sizes);
  }
  return UnknownDevice(execution);
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved) {
  switch (execution.device) {
    case Device::kHost:
      return host::Forward(problem, results, execution.threads, workspace, saved);
    case Device::kCuda:
      return cuda::Forward(problem, results, execution, workspace, saved);
  }
  return UnknownDevice(execution);
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved) {
  switch (execution.device) {
    case Device::kHost:
      return host::Backward(problem, results, execution.threads, workspace, saved);
    case Device::kCuda:
      return cuda::Backward(problem, results, execution, workspace, saved);
  }
  return UnknownDevice(execution);
}

Status Run(const Problem& problem, const Results& results, const Execution& execution) {
  switch (execution.device) {
    case Device::kHost:
      return host::Run(problem, results, execution.threads);
    case Device::kCuda:
      return Status::Error(Code::kUnsupported,
                           "execution.device = cuda: Run is for the host; call Forward and Backward "
                           "with memory of your own");
  }
  return UnknownDevice(execution);
}

}  // namespace plumbline::kernel
