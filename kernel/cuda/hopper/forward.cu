// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

template <class Element>
Status Forward(const Product& product, const SoftmaxEpilogue& epilogue, cudaStream_t stream) {
  // 2 pairs of 512 rows: measured faster than 4 and 8 at 8192 rows (an H200, 2026-11).
  return LaunchProduct<Element, ForwardTile>(product, epilogue, 2, stream);
}

template Status Forward<__nv_bfloat16>(const Product&, const SoftmaxEpilogue&, cudaStream_t);
template Status Forward<__half>(const Product&, const SoftmaxEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
