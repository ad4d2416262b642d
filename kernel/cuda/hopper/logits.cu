// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// Both shapes give the same bits. Their tiles are those of partial sums and of kept exponents.
static_assert(ForwardTile::kColumns == kSoftmaxColumns && FewRowsTile::kColumns == kSoftmaxColumns);

template <class Element, class Epilogue>
Status Launch(const Product& product, const Epilogue& epilogue, cudaStream_t stream) {
  if (product.m <= FewRowsTile::kRows)
    return LaunchProduct<Element, FewRowsTile>(product, epilogue, stream);
  return LaunchProduct<Element, ForwardTile>(product, epilogue, stream);
}

template <class Element>
Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  return KnowingKept<Element>(
      epilogue, [&](const auto& known) { return Launch<Element>(product, known, stream); });
}

template <class Element>
Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  return KnowingForm(epilogue,
                     [&](const auto& known) { return Launch<Element>(product, known, stream); });
}

template Status Forward<__nv_bfloat16>(const Product&, const ForwardEpilogue&, cudaStream_t);
template Status Forward<__half>(const Product&, const ForwardEpilogue&, cudaStream_t);
template Status DLogits<__nv_bfloat16>(const Product&, const DLogitsEpilogue<__nv_bfloat16>&,
                                       cudaStream_t);
template Status DLogits<__half>(const Product&, const DLogitsEpilogue<__half>&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
