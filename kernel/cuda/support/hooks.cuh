// SPDX-License-Identifier: Apache-2.0
//
// Hooks: the points at which a kernel may be made to behave differently. A kernel with hooks is a
// template over a policy of this shape, which is also its last argument. The operator's own kernels
// have NoHooks: its functions return what they are given, or do what their name says, and add no
// instruction.

#pragma once

#include <cstdint>

namespace plumbline::kernel::cuda {

struct NoHooks {
  // In all main loops.

  // Returns the depth that a product sums over, in blocks of `block`. The operands' depth is `most`.
  template <class Int>
  __device__ static Int Depth(Int depth, Int /*block*/, Int /*most*/) {
    return depth;
  }
  // Runs when this thread has seen the copies to a stage arrive, before any thread multiplies it. `at`
  // is the stage's shared address.
  __device__ static void StageArrived(int /*stage*/, uint32_t /*at*/, int /*bytes*/) {}

  // In the portable main loop.

  // Returns the number of tiles that are computed.
  __device__ static int64_t Tiles(int64_t tiles) { return tiles; }
  // Separates the last reader of a stage from its next writer, and copies from their readers.
  __device__ static void Barrier() { __syncthreads(); }
  // Returns the stage that the next copies go to. Stage `read` is multiplied meanwhile.
  __device__ static int StageToFill(int ahead, int /*read*/) { return ahead; }

  // In Hopper's main loops.

  // Returns the number of clusters that a grid has at most.
  static int64_t Clusters(int64_t most) { return most; }
  // Returns the row at which a copy begins.
  __device__ static int32_t RowCoordinate(int32_t row) { return row; }
  // Returns which part of a tile a block fetches for its cluster.
  __device__ static int MulticastPart(int part) { return part; }
  // Runs before the products of a stage. `release` gives that stage back to the copies.
  template <class Release>
  __device__ static void BeforeProducts(uint32_t /*rank*/, const Release& /*release*/) {}
  // Returns whether a stage is given back behind its products.
  __device__ static bool ReleasesLate() { return true; }
  // Returns the block of the cluster that a stage is given back to. The caller's own is `rank`.
  __device__ static uint32_t ReleasedBlock(uint32_t block, uint32_t /*rank*/) { return block; }
  // Returns whether a tile's sums begin at zero.
  __device__ static bool ClearsSums(bool /*first_tile*/) { return true; }

  // In FinishRows.

  // Stores the sum of a chain. `first` is where the sum of the first chain is stored.
  __device__ static void StoreChain(float sum, float* own, float* /*first*/) { *own = sum; }
};

}  // namespace plumbline::kernel::cuda
