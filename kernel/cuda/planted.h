// SPDX-License-Identifier: Apache-2.0
//
// The CUDA operator with one planted defect, for the harness to find. Not installed. fp16 problems have
// no defects in their kernels, only the driver's.

#ifndef PLUMBLINE_KERNEL_CUDA_PLANTED_H_
#define PLUMBLINE_KERNEL_CUDA_PLANTED_H_

#include "kernel/cuda/defects.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

Status ForwardPlanted(const Problem& problem, const Results& results, const Execution& execution,
                      void* workspace, void* saved, Defect defect);
Status BackwardPlanted(const Problem& problem, const Results& results, const Execution& execution,
                       void* workspace, const void* saved, Defect defect);
Status ForwardBackwardPlanted(const Problem& problem, const Results& results,
                              const Execution& execution, const UpstreamGradients& upstream,
                              void* workspace, Defect defect);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_PLANTED_H_
