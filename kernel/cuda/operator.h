// SPDX-License-Identifier: Apache-2.0
//
// The operator on a CUDA device. kernel/linear_cross_entropy.h calls it for Device::kCuda, with the
// same arguments and errors. Everything is enqueued on execution.stream; nothing is allocated, waited
// for or read back, so that a CUDA graph can capture a call. For the same reason kInvalidData is not
// returned: the caller reads first_invalid_row.
//
// `path` is what the products run on. Null: the best path for the device that execution.path allows.
//
// `chunk_columns` is for tests and the harness, and the same in all calls of one step. Above 0,
// backward divides a small problem as memory divides a large one: chunks have at most so many columns,
// or as few as a chunk can have; d_logits of kept columns of the next chunk are made beside a chunk's
// products where a path does so; and stretches are computed in turn, unless a sweep computes them. It
// changes sizes, and no bit. 0: what costs least.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

struct Path;  // kernel/cuda/stages/path.h

// False in a build without a CUDA compiler: every call is then kUnsupported.
bool Built();

Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes, int64_t chunk_columns = 0);
Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved, const Path* path = nullptr, int64_t chunk_columns = 0);
Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved, const Path* path = nullptr,
                int64_t chunk_columns = 0);
Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace, int64_t chunk_columns = 0);
Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace, const Path* path = nullptr,
                       int64_t chunk_columns = 0);

}  // namespace plumbline::kernel::cuda
