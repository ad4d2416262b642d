// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// Both shapes of grad_hidden's tiles give the same bits.
template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  if (GradHiddenRows(product.m) == FewRowsGradHiddenTile::kRows)
    return LaunchProduct<Element, FewRowsGradHiddenTile>(product, epilogue, stream);
  static_assert(GradHiddenRows(1 << 20) == GradHiddenTile::kRows);
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, stream);
}

// Returns the grad_hidden beside which this grad_weight begins.
Transposed GradHiddenBefore(const Product& product) {
  if (product.beside_depth == 0) return {};
  return {GradHiddenRows(product.k), GradHiddenTile::kUnitColumns, int(product.beside_depth),
          product.beside_stretches};
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  const Transposed grad_hidden = GradHiddenBefore(product);
  return KnowingLines<Element>(epilogue, GradWeightTile::kColumns, [&](const auto& known) {
    return LaunchProduct<Element, GradWeightTile>(product, known, stream, NoHooks(), grad_hidden);
  });
}

Status GradWeightOfBlock(const Product& product, const GradWeightBlockEpilogue& epilogue,
                         cudaStream_t stream) {
  return LaunchProduct<__nv_bfloat16, GradWeightTile>(product, epilogue, stream, NoHooks(),
                                                      GradHiddenBefore(product));
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
