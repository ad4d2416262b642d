// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// Tiles are those of partial sums and of kept exponents.
static_assert(ForwardTile::kColumns == kSoftmaxColumns && FewRowsTile::kColumns == kSoftmaxColumns);

template <class Element>
Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  return KnowingKept<Element>(
      epilogue, [&](const auto& known) { return LaunchLogits<Element>(product, known, stream); });
}

template Status Forward<__nv_bfloat16>(const Product&, const ForwardEpilogue&, cudaStream_t);
template Status Forward<__half>(const Product&, const ForwardEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
