// SPDX-License-Identifier: Apache-2.0
//
// Enqueues one ProductKernel: tensor maps, grid, shared memory. Included by the sources that
// instantiate kernels; the functions of launch.h are what the rest of the operator sees.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernel/cuda/hopper/launch_clusters.cuh"
#include "kernel/cuda/hopper/product_kernel.cuh"
#include "kernel/cuda/support/hooks.cuh"
#include "kernel/status.h"

namespace plumbline::kernel::cuda::hopper {

// Tiles of logits. With one tile of rows alone, the second block of a cluster would do nothing but
// multiply zeros, so FewRowsTile has clusters of one block. Weight passes
// through L2 once for each group of rows, and is let go of before the rows of hidden that a round of
// tiles shares (bench/NOTES.md, 46).
template <int cluster_rows>
using LogitsTile =
    TileShape<2, 192, 5, Major::kK, Major::kK, cluster_rows, 1, /*streams_b=*/cluster_rows == 2>;
using ForwardTile = LogitsTile<2>;
using FewRowsTile = LogitsTile<1>;
// Tiles of the gradients. They have 128 columns, because hidden sizes are multiples of 128 rather than
// of 192. The blocks of a cluster share A.
template <Major of_d_logits, int groups, int stages>
using GradientTile = TileShape<groups, 128, stages, of_d_logits, Major::kMN, 1, 2>;
using GradHiddenTile = GradientTile<Major::kK, 3, 5>;
using GradWeightTile = GradientTile<Major::kMN, 3, 5>;
// Takes 128 or 256 rows without a rest (GradHiddenRows).
using FewRowsGradHiddenTile = GradientTile<Major::kK, 2, 6>;

template <class Tile>
int64_t Units(int64_t m, int64_t n) {
  return ((m + Tile::kUnitRows - 1) / Tile::kUnitRows) *
         ((n + Tile::kUnitColumns - 1) / Tile::kUnitColumns);
}

template <class Element, class Tile, class Epilogue, class Hooks = NoHooks>
Status LaunchProduct(const Product& product, const Epilogue& epilogue, cudaStream_t stream,
                     const Hooks& hooks = {}, const Transposed& before = {}) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  Maps maps = {};
  Status mapped = MakeMaps(product, Tile::kA, Tile::kB, Tile::FetchedRows(product.m),
                           Tile::ShareB::kBoxRows, &maps);
  if (!mapped.ok()) return mapped;
  const int64_t stretches = product.stretch > 0 ? (product.k - 1) / product.stretch + 1 : 1;
  const int64_t units = Units<Tile>(product.m, product.n), tiles = units * stretches;
  if (tiles > int64_t{1} << 30) {
    return Status::Error(Code::kUnsupported, "a matrix product of " + std::to_string(product.m) +
                                                 " x " + std::to_string(product.n) + " has " +
                                                 std::to_string(tiles) +
                                                 " clusters of tiles; at most 2^30 are counted");
  }
  constexpr int kSharedBytes = Tile::SharedBytes(RowBytes<Epilogue>()) +
                               (IsGradient<Epilogue>() ? kKeptWarps * kKeptRingBytes : 0);
  static_assert(kSharedBytes <= 227 * 1024);
  const auto kernel = ProductKernel<Element, Tile, Epilogue, Hooks>;
  static constinit ClusterCounts known{};
  const auto most = [&](int64_t fit) {
    return std::min(product.in_turn ? units : tiles, hooks.Clusters(fit));
  };
  return LaunchClusters("launch of a matrix product", kernel, &known, Tile::kClusterBlocks,
                        kSharedBytes, stream, most, maps, product, before, epilogue, hooks);
}

// Enqueues a product of logits. Both shapes of its tiles give the same bits.
template <class Element, class Epilogue>
Status LaunchLogits(const Product& product, const Epilogue& epilogue, cudaStream_t stream) {
  if (product.m <= FewRowsTile::kRows)
    return LaunchProduct<Element, FewRowsTile>(product, epilogue, stream);
  return LaunchProduct<Element, ForwardTile>(product, epilogue, stream);
}

}  // namespace plumbline::kernel::cuda::hopper
