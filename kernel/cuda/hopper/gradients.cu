// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"

namespace plumbline::kernel::cuda::hopper {

constexpr int64_t kManyTiles = 132;  // multiprocessors of an H100 or H200

bool OfFewRows(int64_t rows, int64_t hidden_size) {
  const int64_t tiles =
      ((rows - 1) / GradHiddenTile::kRows + 1) * ((hidden_size - 1) / GradHiddenTile::kColumns + 1);
  return tiles < kManyTiles;
}

// Either shape gives the same bits.
template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  if (OfFewRows(product.m, product.n))
    return LaunchProduct<Element, FewRowsGradHiddenTile>(product, epilogue, stream);
  return LaunchProduct<Element, GradHiddenTile>(product, epilogue, stream);
}

template <class Tile>
int64_t Units(int64_t rows, int64_t columns) {
  constexpr int64_t kRows = Tile::kRows * Tile::kClusterRows;
  constexpr int64_t kColumns = Tile::kColumns * Tile::kClusterColumns;
  return (rows + kRows - 1) / kRows * ((columns + kColumns - 1) / kColumns);
}
template <class Tile>
double Time(int64_t depth) {
  return static_cast<double>(Tile::kRows * Tile::kColumns) *
         static_cast<double>((depth + kDepthBlock - 1) / kDepthBlock);
}

// Gives more tiles of grad_weight to the clusters that grad_hidden's last round leaves free. A grid's
// blocks are placed in their order, so that those are the first.
Status DealAfterGradHidden(Product* product) {
  int multiprocessors = 0;
  Status status = CountMultiprocessors(&multiprocessors);
  const int64_t clusters = multiprocessors / GradHiddenTile::kClusterBlocks;
  if (!status.ok() || OfFewRows(product->k, product->n) ||
      Units<GradWeightTile>(product->m, product->n) < clusters)
    return status;
  const int64_t late = Units<GradHiddenTile>(product->k, product->n) % clusters;
  if (late == 0) return status;
  const double rounds = Time<GradHiddenTile>(product->m) / Time<GradWeightTile>(product->k);
  product->head_clusters = static_cast<int>(clusters - late);
  product->head_rounds = static_cast<int>(std::min(rounds + 0.5, 64.0));
  return status;
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  Product dealt = product;
  if (product.beside_previous) {
    const Status status = DealAfterGradHidden(&dealt);
    if (!status.ok()) return status;
  }
  return KnowingLines<Element>(epilogue, GradWeightTile::kColumns, [&](const auto& known) {
    return LaunchProduct<Element, GradWeightTile>(dealt, known, stream);
  });
}

template Status GradHidden<__nv_bfloat16>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradHidden<__half>(const Product&, const AccumulateEpilogue&, cudaStream_t);
template Status GradWeight<__nv_bfloat16>(const Product&, const GradWeightEpilogue&, cudaStream_t);
template Status GradWeight<__half>(const Product&, const GradWeightEpilogue&, cudaStream_t);

}  // namespace plumbline::kernel::cuda::hopper
