// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

template <class Element>
Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  return KnowingForm(epilogue,
                     [&](const auto& known) { return LaunchLogits<Element>(product, known, stream); });
}

template Status DLogits<__nv_bfloat16>(const Product&, const DLogitsEpilogue<__nv_bfloat16>&,
                                       cudaStream_t);
template Status DLogits<__half>(const Product&, const DLogitsEpilogue<__half>&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
