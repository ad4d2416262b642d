// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// Pairs of 256 rows. From 1 to 16 nothing changes beyond noise (bench/NOTES.md).
constexpr int kPairsInGroup = 4;

template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, kPairsInGroup, stream);
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  return LaunchProduct<Element, GradWeightTile>(product, epilogue, kPairsInGroup, stream);
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
