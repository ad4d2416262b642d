// SPDX-License-Identifier: Apache-2.0

#include "kernel/linear_cross_entropy.h"

#include <string>

#include "kernel/cuda/operator.h"
#include "kernel/host/host.h"
#include "kernel/saved_header.h"

namespace plumbline::kernel {
namespace {

// Calls the implementation for the device that the execution names.
template <class Host, class Cuda>
Status OnDevice(const Execution& execution, const Host& on_host, const Cuda& on_cuda) {
  switch (execution.device) {
    case Device::kHost:
      return on_host();
    case Device::kCuda:
      return on_cuda();
  }
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
  return OnDevice(
      execution, [&] { return host::GetSizes(problem, results, execution.threads, sizes); },
      [&] { return cuda::GetSizes(problem, results, execution, sizes); });
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved) {
  return OnDevice(
      execution, [&] { return host::Forward(problem, results, execution.threads, workspace, saved); },
      [&] { return cuda::Forward(problem, results, execution, workspace, saved); });
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved) {
  return OnDevice(
      execution,
      [&] {
        const Status status = host::Backward(problem, results, execution.threads, workspace, saved);
        const bool ran = status.ok() || status.code == Code::kInvalidData;
        Sizes sizes;
        if (ran && execution.saved_is_consumed &&
            host::GetSizes(problem, results, execution.threads, &sizes).ok() && sizes.saved > 0)
          *static_cast<SavedHeader*>(const_cast<void*>(saved)) = {.magic = 0};
        return status;
      },
      [&] { return cuda::Backward(problem, results, execution, workspace, saved); });
}

Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace) {
  return OnDevice(
      execution,
      [&] { return host::GetForwardBackwardSize(problem, results, execution.threads, workspace); },
      [&] { return cuda::GetForwardBackwardSize(problem, results, execution, workspace); });
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace) {
  Status status = CheckUpstream(problem, upstream);
  if (!status.ok()) return status;
  return OnDevice(
      execution,
      [&] { return host::ForwardBackward(problem, results, execution.threads, upstream, workspace); },
      [&] { return cuda::ForwardBackward(problem, results, execution, upstream, workspace); });
}

Status Run(const Problem& problem, const Results& results, const Execution& execution) {
  return OnDevice(
      execution, [&] { return host::Run(problem, results, execution.threads); },
      [&] {
        return Status::Error(Code::kUnsupported,
                             "execution.device = cuda: Run is for the host; call Forward and Backward "
                             "with memory of your own");
      });
}

}  // namespace plumbline::kernel
