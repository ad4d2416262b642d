// SPDX-License-Identifier: Apache-2.0
//
// The order in which persistent clusters compute the tiles of a product. Every tile is computed once,
// whatever the numbers here, and no result depends on which cluster computes it.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plumbline::kernel::cuda::hopper {

// Returns the rows of a tile of grad_hidden of n rows. Tiles of 192 would compute a third for nothing
// where there are 128 rows or 256.
constexpr int GradHiddenRows(int64_t n) { return n <= 128 || (n > 192 && n <= 256) ? 128 : 192; }

// The head start of a grid's first clusters: `clusters` of them, at most all, each take one tile in
// every one of `rounds` rounds before the others take any.
struct Head {
  int clusters = 0, rounds = 0;
};

// The number of a product's tiles and the time of one, in any unit that two products share.
struct Load {
  int tiles;
  float time;
};

// Returns the head of a product that begins while the last round of the product before it still
// occupies some of the `clusters`. A grid's blocks are placed in their order, so the free clusters get
// its first blocks. They take as many rounds as that last round takes time for.
__host__ __device__ inline Head HeadBeside(int clusters, const Load& before, const Load& own) {
  const int late = before.tiles % clusters;
  if (late == 0 || own.tiles < clusters || !(own.time > 0)) return {};
  const int free = clusters - late, most = own.tiles / free + 1;  // more would deal nothing
  const float rounds = before.time / own.time + 0.5f;
  return {free, rounds < static_cast<float>(most) ? static_cast<int>(rounds) : most};
}

// The numbers of the tiles that a cluster takes, ascending: after the head it takes every clusters-th.
struct Deal {
  int clusters;
  Head head;

  __host__ __device__ int First(int cluster) const {
    return cluster < head.clusters ? cluster : head.clusters * head.rounds + cluster;
  }
  __host__ __device__ int After(int tile) const {
    return tile + (tile < head.clusters * head.rounds ? head.clusters : clusters);
  }
  // Returns the number of tiles up to the end of the round in which `cluster` takes `tile`.
  __host__ __device__ int EndOfRound(int cluster, int tile) const { return After(tile) - cluster; }
};

// Maps the number of a tile to its row and column, in units of a cluster's tiles. Groups of a few rows
// go over all columns, so that what concurrent clusters read of A stays in L2 while B is streamed
// (bench/NOTES.md, 7).
struct Schedule {
  static constexpr int kGroup = 8;
  int rows, columns;

  __host__ __device__ int tiles() const { return rows * columns; }
  __host__ __device__ void At(int tile, int* row, int* column) const {
    const int first = tile / (kGroup * columns) * kGroup;
    const int height = rows - first < kGroup ? rows - first : kGroup;
    const int within = tile - first * columns;
    *column = within / height;
    *row = first + within - *column * height;
  }
};

}  // namespace plumbline::kernel::cuda::hopper
