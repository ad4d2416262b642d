// SPDX-License-Identifier: Apache-2.0
//
// The operator on a CUDA device. kernel/linear_cross_entropy.h calls it for Device::kCuda, with the
// same arguments and errors. Everything is enqueued on execution.stream; nothing is allocated, waited
// for or read back, so that a CUDA graph can capture a call. For the same reason kInvalidData is not
// returned: the caller reads first_invalid_row.
//
// `path` is what the products run on. Null: the best path for the device that execution.path allows.

#pragma once

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

struct Path;  // kernel/cuda/stages/path.h

// False in a build without a CUDA compiler: every call is then kUnsupported.
bool Built();

Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes);
Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved, const Path* path = nullptr);
Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved, const Path* path = nullptr);
Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace);
Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace, const Path* path = nullptr);

}  // namespace plumbline::kernel::cuda
