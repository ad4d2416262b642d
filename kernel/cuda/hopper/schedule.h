// SPDX-License-Identifier: Apache-2.0
//
// Which tile a persistent cluster computes when. Every tile is computed once, whatever the numbers
// here, and no result depends on by whom.

#ifndef PLUMBLINE_KERNEL_CUDA_HOPPER_SCHEDULE_H_
#define PLUMBLINE_KERNEL_CUDA_HOPPER_SCHEDULE_H_

#include <cuda_runtime_api.h>

namespace plumbline::kernel::cuda::hopper {

// The numbers of the tiles that one of `clusters` takes, round after round: every clusters-th, but for
// a head of head_rounds rounds that the first head_clusters, at most all, deal among themselves.
// Ascending.
struct Deal {
  int cluster, clusters, head_clusters, head_rounds;

  __host__ __device__ int first_round() const { return cluster < head_clusters ? 0 : head_rounds; }
  __host__ __device__ int Tile(int round) const {
    if (round < head_rounds) return round * head_clusters + cluster;
    return head_rounds * head_clusters + (round - head_rounds) * clusters + cluster;
  }
};

// Where the tile of a number lies: groups of a few rows sweep all columns, so that what concurrent
// clusters read of A stays in L2 while B streams by. Rows and columns are clusters'.
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

#endif  // PLUMBLINE_KERNEL_CUDA_HOPPER_SCHEDULE_H_
