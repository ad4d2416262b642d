// SPDX-License-Identifier: Apache-2.0
//
// Limits how far the concurrent clusters of a product drift apart. The clusters of one round read the
// same columns of B (product/schedule.h), and L2 holds those only while the clusters run at about the
// same time. Forward at 8192 x 4096 x 151936 read 26.0 GB of DRAM on an H100 without this limit and
// 10.5 with it; it took 13.66 ms under ncu without and 12.64 with it (bench/NOTES.md, 35).
//
// A counter in device memory (Product::begun) counts the tiles that have begun. A tile begins when the
// issuing thread of the cluster's first block is about to issue its copies. This thread counts the
// tile, then polls the counter until all tiles of the round but `slack` have begun. The number of polls
// is bounded, so a cluster that never becomes resident cannot block another. No result depends on the
// counter.

#pragma once

#include <cstdint>

#include "kernel/cuda/product/schedule.h"

namespace plumbline::kernel::cuda::hopper {

struct Pace {
  static constexpr int kMostPolls = 60;               // for a tile
  static constexpr unsigned kSleepNanoseconds = 100;  // between polls; __nanosleep takes 0 to 200

  int slack;  // in tiles; negative: this thread neither counts nor waits

  // Counts `tile` of `tiles`, the cluster's next one, and waits unless it is the cluster's last.
  __device__ __forceinline__ void Begin(int32_t* begun, const Deal& deal, int cluster, int tile,
                                        int tiles) {
    if (slack < 0) return;
    int count = atomicAdd(begun, 1) + 1;
    if (deal.After(tile) >= tiles) {
      // The last count resets the counter for the next product. By then every cluster has begun its
      // last tile, so none polls any more.
      if (count == tiles) asm volatile("st.relaxed.gpu.global.s32 [%0], 0;" ::"l"(begun) : "memory");
      return;
    }
    const int enough = deal.EndOfRound(cluster, tile) - slack;
    int polls = 0;
#pragma unroll 1
    while (count < enough) {
      if (polls++ == kMostPolls) {
        // Some clusters may not be resident. This one waits for none of its later tiles, because each
        // could take as long; it goes on counting them.
        slack = tiles;
        return;
      }
      __nanosleep(kSleepNanoseconds);
      asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(count) : "l"(begun) : "memory");
    }
  }
};

// Returns the pace of the issuing thread of block `rank` of a cluster. Without a counter, with a single
// cluster and with at most one tile a cluster there is nothing to limit. A tile of few steps of depth
// has more slack, because a wait takes a larger part of its time.
__device__ __forceinline__ Pace PaceOf(const int32_t* begun, uint32_t rank, const Deal& deal, int tiles,
                                       int steps) {
  if (begun == nullptr || rank != 0 || deal.clusters == 1 || tiles <= deal.clusters) return {-1};
  return {deal.clusters / (steps >= 32 ? 4 : 2)};
}

}  // namespace plumbline::kernel::cuda::hopper
