// SPDX-License-Identifier: Apache-2.0
//
// Runs the CUDA operator with one defect of kernel/cuda/support/defects.h: the operator's own passes on
// paths that have the defect. Returns kUnsupported if the device has no such path: 8.0 is the least,
// and Hopper's defects need 9.0. In fp16 the kernels have no defects, only the passes around them do.

#ifndef PLUMBLINE_FUZZ_BUILTIN_MUTANTS_CUDA_CALL_H_
#define PLUMBLINE_FUZZ_BUILTIN_MUTANTS_CUDA_CALL_H_

#include "kernel/cuda/support/defects.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::fuzz {

kernel::Status ForwardPlanted(const kernel::Problem& problem, const kernel::Results& results,
                              void* workspace, void* saved, void* stream,
                              const kernel::cuda::DefectEntry& planted);
kernel::Status BackwardPlanted(const kernel::Problem& problem, const kernel::Results& results,
                               void* workspace, const void* saved, void* stream,
                               const kernel::cuda::DefectEntry& planted);
kernel::Status ForwardBackwardPlanted(const kernel::Problem& problem, const kernel::Results& results,
                                      const kernel::Execution& execution,
                                      const kernel::UpstreamGradients& upstream, void* workspace,
                                      const kernel::cuda::DefectEntry& planted);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BUILTIN_MUTANTS_CUDA_CALL_H_
