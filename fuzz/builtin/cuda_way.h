// SPDX-License-Identifier: Apache-2.0
//
// How the operator is called on a CUDA device for a problem. The shape alone decides it, so that each
// way is fuzzed with the others' cases.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::fuzz {

struct CudaWay {
  kernel::Execution execution;
  // As kernel/cuda/operator.h says. It is 0 in half of all shapes and where a problem is large, 384
  // and 2304 in a quarter each, so that small problems have several chunks, two buffers of d_logits,
  // and totals behind d_logits in place. 2304 columns fill the ring of
  // kernel/cuda/hopper/kept_warp.cuh.
  int64_t chunk_columns = 0;
};

// The execution by which the operator runs on `stream`.
kernel::Execution OnCuda(void* stream, kernel::CudaPath path);

// The way that a problem goes through Forward and Backward. Logits are saved from forward for backward,
// all in a third of shapes, half in another third if that is a whole block of columns, and none in the
// rest. The state is consumed in half of all shapes. The form of what is kept is KeptForm::kLogits
// for a third of weights. The number of rows does not decide that: the form changes bits of gradients,
// which a row keeps in every batch.
CudaWay SavingSome(const kernel::Problem& problem, void* stream, kernel::CudaPath path);

// The way that a problem goes through ForwardBackward. All logits are kept for every other shape; for
// the rest half, if that is a whole block of columns. Rows are taken in blocks of 64 in two of three
// shapes. Form and chunks are those of SavingSome.
CudaWay KeepingSome(const kernel::Problem& problem, void* stream, kernel::CudaPath path);

// The calls of kernel/linear_cross_entropy.h by a way: through the public API, and where chunks are
// shortened through kernel/cuda/operator.h behind it.
kernel::Status GetSizes(const kernel::Problem& problem, const kernel::Results& results,
                        const CudaWay& way, kernel::Sizes* sizes);
kernel::Status Forward(const kernel::Problem& problem, const kernel::Results& results,
                       const CudaWay& way, void* workspace, void* saved);
kernel::Status Backward(const kernel::Problem& problem, const kernel::Results& results,
                        const CudaWay& way, void* workspace, const void* saved);
kernel::Status GetForwardBackwardSize(const kernel::Problem& problem, const kernel::Results& results,
                                      const CudaWay& way, size_t* workspace);
kernel::Status ForwardBackward(const kernel::Problem& problem, const kernel::Results& results,
                               const CudaWay& way, const kernel::UpstreamGradients& upstream,
                               void* workspace);

}  // namespace plumbline::fuzz
