// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/mutants.h"

#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper::mutants {

// The schedules of the kernels that they stand for.
Status Forward(const Product& product, const SoftmaxEpilogue& epilogue, cudaStream_t stream) {
  return LaunchProduct<__nv_bfloat16, ForwardTile>(product, epilogue, 2, stream,
                                                   PlantedDefect{product.planted});
}

Status DLogits(const Product& product, const DLogitsEpilogue<__nv_bfloat16>& epilogue,
               cudaStream_t stream) {
  return LaunchProduct<__nv_bfloat16, DLogitsTile>(product, epilogue, 2, stream,
                                                   PlantedDefect{product.planted});
}

Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  return LaunchProduct<__nv_bfloat16, GradHiddenTile>(product, epilogue, 4, stream,
                                                      PlantedDefect{product.planted});
}

Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  return LaunchProduct<__nv_bfloat16, GradWeightTile>(product, epilogue, 4, stream,
                                                      PlantedDefect{product.planted});
}

}  // namespace plumbline::kernel::cuda::hopper::mutants
