// SPDX-License-Identifier: Apache-2.0
//
// The kernels of launch.h for bf16 once more, with one defect of the main loop planted in them:
// product.planted, a Defect of kernel/cuda/defects.h. Defects of other places change nothing here.

#ifndef PLUMBLINE_KERNEL_CUDA_HOPPER_MUTANTS_H_
#define PLUMBLINE_KERNEL_CUDA_HOPPER_MUTANTS_H_

#include <cuda_runtime_api.h>

#include "kernel/cuda/paths.h"

namespace plumbline::kernel::cuda::hopper::mutants {

Status Forward(const Product& product, const SoftmaxEpilogue& epilogue, cudaStream_t stream);
Status DLogits(const Product& product, const DLogitsEpilogue<__nv_bfloat16>& epilogue,
               cudaStream_t stream);
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream);
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream);

}  // namespace plumbline::kernel::cuda::hopper::mutants

#endif  // PLUMBLINE_KERNEL_CUDA_HOPPER_MUTANTS_H_
