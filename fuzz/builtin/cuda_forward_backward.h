// SPDX-License-Identifier: Apache-2.0
//
// Gradients in forward on a CUDA device (ForwardBackward of kernel/linear_cross_entropy.h) as a target,
// by the path that is best on the device, with the contract of `cuda`. In the split form forward does
// all of it, gradients included, and backward does nothing: there is no saved state. KeepingSome of
// fuzz/builtin/cuda_way.h says how each problem is called.
//
// Bits of grad_weight differ from those of `cuda` where rows are taken in blocks and some are dropped,
// and gradients of the two forms differ. Both stay within the bounds of the contract. All else has the
// bits of `cuda`.

#pragma once

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_way.h"
#include "fuzz/builtin/upstream.h"
#include "fuzz/target_abi.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::fuzz {

const plumbline_target_v1* CudaForwardBackwardTarget();

// An Operator of fuzz/builtin/adapter.h without Describe. `Call` has the static members kPath and
// Enqueue, which takes the arguments of kernel::ForwardBackward, with a way for the execution.
template <class Call>
struct ForwardBackwardOperator {
  static constexpr DLDeviceType kDevice = kDLCUDA;
  static kernel::Status Run(const kernel::Problem& problem, const kernel::Results& results,
                            void* stream) {
    return RunInScratch<ForwardBackwardOperator>(problem, results, stream);
  }
  static kernel::Status GetSizes(const kernel::Problem& problem, const kernel::Results& results,
                                 kernel::Sizes* sizes) {
    sizes->saved = 0;
    return GetForwardBackwardSize(problem, results, KeepingSome(problem, nullptr, Call::kPath),
                                  &sizes->workspace);
  }
  static kernel::Status Forward(const kernel::Problem& problem, const kernel::Results& results,
                                void* workspace, void*, void* stream) {
    UpstreamOfProblem upstream(problem, results);
    return Call::Enqueue(upstream.problem(), results, KeepingSome(problem, stream, Call::kPath),
                         upstream.gradients(), workspace);
  }
  static kernel::Status Backward(const kernel::Problem&, const kernel::Results&, void*, const void*,
                                 void*) {
    return kernel::Status::Ok();
  }
};

}  // namespace plumbline::fuzz
