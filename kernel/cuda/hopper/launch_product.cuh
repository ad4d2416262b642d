// SPDX-License-Identifier: Apache-2.0
//
// Enqueues one ProductKernel: tensor maps, grid, shared memory. Included by the sources that
// instantiate kernels; the functions of launch.h are what the rest of the operator sees.

#ifndef PLUMBLINE_KERNEL_CUDA_HOPPER_LAUNCH_PRODUCT_CUH_
#define PLUMBLINE_KERNEL_CUDA_HOPPER_LAUNCH_PRODUCT_CUH_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernel/cuda/hopper/product_kernel.cuh"
#include "kernel/cuda/launch.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda::hopper {

using ForwardTile = TileShape<2, 192, 4, Major::kK, Major::kK, 24, 240>;
using DLogitsTile = ForwardTile;
using GradHiddenTile = TileShape<1, 256, 4, Major::kK, Major::kMN, 40, 232>;
using GradWeightTile = TileShape<1, 256, 4, Major::kMN, Major::kMN, 40, 232>;

// pairs_in_group: see Schedule.
template <class Element, class Tile, class Epilogue, class Plan = NoDefects>
Status LaunchProduct(const Product& product, const Epilogue& epilogue, int pairs_in_group,
                     cudaStream_t stream, const Plan& plan = {}) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  Maps maps = {};
  Status mapped = MakeMaps(product, Tile::kA, Tile::kB, Tile::kABoxRows, Tile::kBBoxRows, &maps);
  if (!mapped.ok()) return mapped;
  int multiprocessors = 0;
  Status counted = CountMultiprocessors(&multiprocessors);
  if (!counted.ok()) return counted;
  constexpr int64_t kPairRows = int64_t{Tile::kRows} * kClusterBlocks;
  const int64_t tiles =
      ((product.m + kPairRows - 1) / kPairRows) * ((product.n + Tile::kColumns - 1) / Tile::kColumns);
  if (tiles > int64_t{1} << 30) {
    return Status::Error(Code::kUnsupported, "a matrix product of " + std::to_string(product.m) +
                                                 " x " + std::to_string(product.n) + " has " +
                                                 std::to_string(tiles) +
                                                 " pairs of tiles; at most 2^30 are counted");
  }
  // A defect of a block's second tile shows on small problems too where there is one cluster alone.
  const int64_t most =
      plan.Has(Defect::kHopperAccumulatorCarried) ? 1 : multiprocessors / kClusterBlocks;
  const int64_t clusters = std::max<int64_t>(1, std::min<int64_t>(tiles, most));
  const auto kernel = ProductKernel<Element, Tile, Epilogue, Plan>;
  Status allowed = FromCuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes),
      "shared memory of a matrix product");
  if (!allowed.ok()) return allowed;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kClusterBlocks;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kClusterBlocks * unsigned(clusters));
  config.blockDim = dim3(kBlockThreads);
  config.dynamicSmemBytes = Tile::kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return FromCuda(cudaLaunchKernelEx(&config, kernel, maps, product, pairs_in_group, epilogue, plan),
                  "launch of a matrix product");
}

}  // namespace plumbline::kernel::cuda::hopper

#endif  // PLUMBLINE_KERNEL_CUDA_HOPPER_LAUNCH_PRODUCT_CUH_
