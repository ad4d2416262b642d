// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

constexpr int64_t kManyTiles = 132;  // multiprocessors of an H100 or H200

namespace {

bool OfFewRows(int64_t rows, int64_t hidden_size) {
  const int64_t tiles =
      ((rows - 1) / GradHiddenTile::kRows + 1) * ((hidden_size - 1) / GradHiddenTile::kColumns + 1);
  return tiles < kManyTiles;
}

}  // namespace

// Both shapes give the same bits.
template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  if (OfFewRows(product.m, product.n))
    return LaunchProduct<Element, FewRowsGradHiddenTile>(product, epilogue, stream);
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, stream);
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  Transposed grad_hidden;
  if (product.beside_previous && !OfFewRows(product.k, product.n))
    grad_hidden = {GradHiddenTile::kUnitRows, GradHiddenTile::kUnitColumns};
  return KnowingLines<Element>(epilogue, GradWeightTile::kColumns, [&](const auto& known) {
    return LaunchProduct<Element, GradWeightTile>(product, known, stream, NoDefects(), grad_hidden);
  });
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
