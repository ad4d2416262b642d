// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

namespace {

// Sets *few to whether grad_hidden has fewer large tiles than the device has multiprocessors.
Status AreFewRows(int64_t rows, int64_t hidden_size, bool* few) {
  int multiprocessors = 0;
  const Status status = CountMultiprocessors(&multiprocessors);
  const int64_t tiles =
      ((rows - 1) / GradHiddenTile::kRows + 1) * ((hidden_size - 1) / GradHiddenTile::kColumns + 1);
  *few = tiles < multiprocessors;
  return status;
}

}  // namespace

// Both shapes give the same bits.
template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  bool few = false;
  const Status status = AreFewRows(product.m, product.n, &few);
  if (!status.ok()) return status;
  if (few) return LaunchProduct<Element, FewRowsGradHiddenTile>(product, epilogue, stream);
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, stream);
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  Transposed grad_hidden;
  bool few = false;
  const Status status = AreFewRows(product.k, product.n, &few);
  if (!status.ok()) return status;
  if (product.beside_previous && !few)
    grad_hidden = {GradHiddenTile::kUnitRows, GradHiddenTile::kUnitColumns};
  return KnowingLines<Element>(epilogue, GradWeightTile::kColumns, [&](const auto& known) {
    return LaunchProduct<Element, GradWeightTile>(product, known, stream, NoHooks(), grad_hidden);
  });
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
