// SPDX-License-Identifier: Apache-2.0
//
// The shapes of a product, chosen at compile time by measurement (bench/NOTES.md): the tile of a block,
// the cluster of blocks that share operands, the stages of shared memory, the registers.

#pragma once

#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda::hopper {

inline constexpr int kDepthBlock = 64;  // of the depth in a stage: 128 bytes, one row of the swizzle
inline constexpr int kMultipliers = 2;  // warpgroups of a block
inline constexpr int kBlockThreads = 128 * (1 + kMultipliers);
inline constexpr int kWarpsAStage = 4;  // warps that multiply a stage

// Registers of a thread of the issuing warpgroup, and of the multiplying ones. A tile may take 192
// accumulators, and its epilogue has the rest. During a gradient's product the issuing warpgroup also
// computes d_logits.
struct Registers {
  int issuing, multiplying;
};
template <bool of_gradient>
inline constexpr Registers kRegisters = of_gradient ? Registers{40, 232} : Registers{24, 240};
static_assert(kRegisters<true>.issuing + 2 * kRegisters<true>.multiplying <= 504);
static_assert(kRegisters<false>.issuing + 2 * kRegisters<false>.multiplying <= 504);

// The share of one operand's tile, `extent` rows or columns by a block of the depth, that one of
// `sharers` blocks fetches. A K-major operand is divided by rows. An MN-major one is divided into whole
// boxes of 64 where they divide evenly, else by the depth of every box.
template <Major major, int extent, int sharers>
struct Share {
  static constexpr bool kWholeBoxes = major == Major::kMN && extent % (kBoxInner * sharers) == 0;
  static constexpr int kBoxes =
      major == Major::kK ? 1 : extent / kBoxInner / (kWholeBoxes ? sharers : 1);
  static constexpr int kBoxRows = major == Major::kK ? extent / sharers
                                  : kWholeBoxes      ? kDepthBlock
                                                     : kDepthBlock / sharers;
  static_assert(major == Major::kK || extent % kBoxInner == 0);
  static_assert(extent % sharers == 0 && kBoxRows % 8 == 0 && kBoxRows <= 256);
};

// The tile of a multiplying warpgroup, 64 * kGroups rows by kColumns, and the block and cluster around
// it.
template <int groups, int columns, int stages, Major a, Major b, int cluster_rows = 2,
          int cluster_columns = 1, bool streams_b = false>
struct TileShape {
  // Copies of B are evict_first (tma.cuh) in products of one pass. Only clusters that share B do so.
  static constexpr bool kStreamsB = streams_b;
  // A cluster has tiles below each other, which share B, or side by side, which share A.
  static constexpr int kClusterRows = cluster_rows;
  static constexpr int kClusterColumns = cluster_columns;
  static constexpr int kClusterBlocks = cluster_rows * cluster_columns;
  static constexpr int kGroups = groups;
  static constexpr int kRows = 64 * groups;
  static constexpr int kColumns = columns;
  static constexpr int kStages = stages;
  static constexpr Major kA = a;
  static constexpr Major kB = b;
  static constexpr int kUnitRows = kRows * cluster_rows;  // of a cluster
  static constexpr int kUnitColumns = kColumns * cluster_columns;
  using ShareA = Share<a, kRows, cluster_columns>;
  using ShareB = Share<b, kColumns, cluster_rows>;
  static constexpr int kABytes = kRows * kDepthBlock * 2;
  static constexpr int kBBytes = kColumns * kDepthBlock * 2;
  static constexpr int kStageBytes = kABytes + kBBytes;
  // Returns the rows of a tile of A that are fetched, of a product with m rows: where one block has all
  // of them, m up to a multiple of 8, the rows of the swizzle. A row beyond the extent, which arrives
  // as zeros, takes longer than one that exists (bench/NOTES.md, 41).
  static constexpr int FetchedRows(int64_t m) {
    if (kClusterBlocks > 1 || kA != Major::kK || m >= kRows) return ShareA::kBoxRows;
    return static_cast<int>((m + 7) / 8 * 8);
  }
  // Returns the bytes that arrive in a stage.
  static constexpr int FetchedBytes(int64_t m) {
    return kStageBytes - (ShareA::kBoxRows - FetchedRows(m)) * kDepthBlock * 2;
  }
  // The scratch of the epilogues, for every multiplying warp.
  static constexpr int kScratchBytes = 4 * kMultipliers * kWarpScratchBytes;
  // Returns the shared memory of a block: the stages and their barriers, the scratch, the epilogue's
  // per-row data, and what aligning to 1024 bytes may cost.
  static constexpr int SharedBytes(int row_bytes) {
    return kStages * (kStageBytes + 16) + kScratchBytes + kMultipliers * kRows * row_bytes + 1024;
  }
  // Two blocks of a cluster share all rows of A, or all columns of B. Clusters of four leave 12 of 132
  // multiprocessors idle (bench/NOTES.md, 5).
  static_assert(kClusterBlocks <= 2);
};

}  // namespace plumbline::kernel::cuda::hopper
