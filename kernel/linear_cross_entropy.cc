// SPDX-License-Identifier: Apache-2.0

#include "kernel/linear_cross_entropy.h"

#include <string>

#include "kernel/cuda/operator.h"
#include "kernel/host/host.h"

namespace plumbline::kernel {
namespace {

Status UnknownDevice(const Execution& execution) {
  return Status::Error(
      Code::kInvalidArgument,
      "execution.device = " + std::to_string(static_cast<int>(execution.device)) + " is not a device");
}

// Refuses, where a function makes the upstream gradients, a problem with gradients of its own or with a
// reduction.
Status CheckUpstream(const Problem& problem, const UpstreamGradients& upstream) {
  if (upstream.function == nullptr) return Status::Ok();
  std::string fault;
  if (problem.reduction != Reduction::kNone) {
    fault = "reduction = " + std::to_string(static_cast<int>(problem.reduction)) +
            ": upstream.function makes gradients of rows; it needs reduction none";
  } else if (problem.grad_logprob) {
    fault = "grad_logprob is present beside upstream.function, which makes it";
  } else if (problem.grad_entropy) {
    fault = "grad_entropy is present beside upstream.function, which makes it";
  }
  return fault.empty() ? Status::Ok() : Status::Error(Code::kInvalidArgument, fault);
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

Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace) {
  switch (execution.device) {
    case Device::kHost:
      return host::GetForwardBackwardSize(problem, results, execution.threads, workspace);
    case Device::kCuda:
      return cuda::GetForwardBackwardSize(problem, results, execution, workspace);
  }
  return UnknownDevice(execution);
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace) {
  Status status = CheckUpstream(problem, upstream);
  if (!status.ok()) return status;
  switch (execution.device) {
    case Device::kHost:
      return host::ForwardBackward(problem, results, execution.threads, upstream, workspace);
    case Device::kCuda:
      return cuda::ForwardBackward(problem, results, execution, upstream, workspace);
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
