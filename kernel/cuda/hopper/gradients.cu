// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"
#include "kernel/cuda/hopper/mutants.h"

namespace plumbline::kernel::cuda::hopper {

template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    if (product.planted != 0) return mutants::GradHidden(product, epilogue, stream);
  }
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, 4, stream);
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    if (product.planted != 0) return mutants::GradWeight(product, epilogue, stream);
  }
  return LaunchProduct<Element, GradWeightTile>(product, epilogue, 4, stream);
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
