// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

// Of clusters' rows (bench/NOTES.md).
constexpr int kGroup = 8;
constexpr int64_t kManyTiles = 132;  // multiprocessors of an H100 or H200

// Either shape gives the same bits.
template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  const int64_t tiles =
      ((product.m - 1) / GradHiddenTile::kRows + 1) * ((product.n - 1) / GradHiddenTile::kColumns + 1);
  if (tiles < kManyTiles)
    return LaunchProduct<Element, FewRowsGradHiddenTile>(product, epilogue, kGroup, stream);
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, kGroup, stream);
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  return KnowingLines<Element>(epilogue, GradWeightTile::kColumns, [&](const auto& known) {
    return LaunchProduct<Element, GradWeightTile>(product, known, kGroup, stream);
  });
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
