// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// Pairs of 512 rows. From 1 to 8 nothing changes beyond noise (bench/NOTES.md).
constexpr int kPairsInGroup = 2;

template <class Element>
Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  if (epilogue.kept_logits != nullptr) {
    return LaunchProduct<Element, ForwardTile>(product, epilogue, kPairsInGroup, stream);
  }
  const SoftmaxEpilogue& nothing_kept = epilogue;
  return LaunchProduct<Element, ForwardTile>(product, nothing_kept, kPairsInGroup, stream);
}

template <class Element>
Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  return LaunchProduct<Element, DLogitsTile>(product, epilogue, kPairsInGroup, stream);
}

template Status Forward<__nv_bfloat16>(const Product&, const ForwardEpilogue&, cudaStream_t);
template Status Forward<__half>(const Product&, const ForwardEpilogue&, cudaStream_t);
template Status DLogits<__nv_bfloat16>(const Product&, const DLogitsEpilogue<__nv_bfloat16>&,
                                       cudaStream_t);
template Status DLogits<__half>(const Product&, const DLogitsEpilogue<__half>&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
