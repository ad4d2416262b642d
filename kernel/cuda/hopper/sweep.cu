// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_sweep.cuh"

namespace plumbline::kernel::cuda::hopper {

template <class Element>
Status BothGradients(const Product& hidden, const AccumulateEpilogue& sums, const Product& weight,
                     const GradWeightLines<Element>& lines, cudaStream_t stream) {
  return LaunchSweep<Element>(hidden, sums, weight, lines, stream);
}

template Status BothGradients(const Product&, const AccumulateEpilogue&, const Product&,
                              const GradWeightLines<__nv_bfloat16>&, cudaStream_t);
template Status BothGradients(const Product&, const AccumulateEpilogue&, const Product&,
                              const GradWeightLines<__half>&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
