// SPDX-License-Identifier: Apache-2.0
//
// The operator on the host. kernel/linear_cross_entropy.h calls it for Device::kHost.
// Arguments and errors are the same, with `threads` in the place of the execution.

#pragma once

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::host {

Status GetSizes(const Problem& problem, const Results& results, int threads, Sizes* sizes);
Status Forward(const Problem& problem, const Results& results, int threads, void* workspace,
               void* saved);
Status Backward(const Problem& problem, const Results& results, int threads, void* workspace,
                const void* saved);
Status GetForwardBackwardSize(const Problem& problem, const Results& results, int threads,
                              size_t* workspace);
Status ForwardBackward(const Problem& problem, const Results& results, int threads,
                       const UpstreamGradients& upstream, void* workspace);
Status Run(const Problem& problem, const Results& results, int threads);

}  // namespace plumbline::kernel::host
