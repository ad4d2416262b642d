// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// 2 pairs of 512 rows: measured faster than 4 and 8 at 8192 rows (an H200, 2026-11).
constexpr int kPairsInGroup = 2;

template <class Element>
Status Forward(const Product& product, const SoftmaxEpilogue& epilogue, cudaStream_t stream) {
  return LaunchProduct<Element, ForwardTile>(product, epilogue, kPairsInGroup, stream);
}

template <class Element>
Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  return LaunchProduct<Element, DLogitsTile>(product, epilogue, kPairsInGroup, stream);
}

template Status Forward<__nv_bfloat16>(const Product&, const SoftmaxEpilogue&, cudaStream_t);
template Status Forward<__half>(const Product&, const SoftmaxEpilogue&, cudaStream_t);
template Status DLogits<__nv_bfloat16>(const Product&, const DLogitsEpilogue<__nv_bfloat16>&,
                                       cudaStream_t);
template Status DLogits<__half>(const Product&, const DLogitsEpilogue<__half>&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
