// SPDX-License-Identifier: Apache-2.0
//
// The main loop of all matrix products on Hopper: C = A B^T by tiles, an epilogue for each tile.
//
// Blocks are persistent and come in clusters of two, which compute two tiles of C, one below the other:
// each fetches its own tile of A and one half of the common tile of B, which goes to both. In a block
// one thread of the first warpgroup issues the copies; two more warpgroups multiply, each the same
// number of rows, and run the epilogue on what their registers hold. A ring of stages lies between
// them:
//   * full[s]: the bytes of stage s have arrived; one arrival, the issuing thread's, announces them
//   * empty[s]: stage s may be overwritten in both blocks; every multiplying warp of either arrived
// A stage is given back one step late, so that one group of wgmma is always in flight.
//
// A tile is whole: no result depends on the grid, on the block's rank or on other tiles. For each pass
// and block of 64 of the depth, ascending, one chain of wgmma goes through the same accumulators; what
// lies beyond the operands' extents is zero, and adding zeros changes no sum. Where the number of tiles
// below each other is odd, the last one's partner computes on zeros or on rows that nobody asked for,
// and stores nothing.

#ifndef PLUMBLINE_KERNEL_CUDA_HOPPER_PRODUCT_KERNEL_CUH_
#define PLUMBLINE_KERNEL_CUDA_HOPPER_PRODUCT_KERNEL_CUH_

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/defects.h"
#include "kernel/cuda/fragment.cuh"
#include "kernel/cuda/hopper/mbarrier.cuh"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/tma.cuh"
#include "kernel/cuda/hopper/wgmma.cuh"
#include "kernel/cuda/product.h"

namespace plumbline::kernel::cuda::hopper {

inline constexpr int kDepthBlock = 64;  // of the depth in a stage: 128 bytes, one row of the swizzle
inline constexpr int kClusterBlocks = 2;
inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kBlockThreads = 128 * (1 + kMultipliers);
inline constexpr int kMultiplyingWarps = 4 * kMultipliers * kClusterBlocks;  // of a cluster

// A tile of C: 64 * 2 * kGroups rows (each multiplying warpgroup kGroups groups of 64), kColumns
// columns. Registers a thread are those of the issuing warpgroup and of the others: 128 (p + 2 m) <=
// 64512.
template <int groups, int columns, int stages, Major a, Major b, int issuing_registers,
          int multiplying_registers>
struct TileShape {
  static constexpr int kGroups = groups;
  static constexpr int kRows = 64 * kMultipliers * groups;
  static constexpr int kColumns = columns;
  static constexpr int kStages = stages;
  static constexpr Major kA = a;
  static constexpr Major kB = b;
  static constexpr int kIssuingRegisters = issuing_registers;
  static constexpr int kMultiplyingRegisters = multiplying_registers;
  static constexpr int kABytes = kRows * kDepthBlock * 2;
  static constexpr int kBBytes = kColumns * kDepthBlock * 2;
  static constexpr int kStageBytes = kABytes + kBBytes;
  // The stages, their barriers, and what aligning the first stage to 1024 bytes may cost.
  static constexpr int kSharedBytes = kStages * (kStageBytes + 16) + 1024;
  // Rows of the boxes in which an operand is fetched (tensor_map.h).
  static constexpr int kABoxRows = a == Major::kK ? kRows : kDepthBlock;
  static constexpr int kBBoxRows = b == Major::kK ? kColumns / kClusterBlocks : kDepthBlock;
  static_assert(kABoxRows <= 256 && kBBoxRows <= 256);
  static_assert(b == Major::kK || columns % (kBoxInner * kClusterBlocks) == 0);
  static_assert(issuing_registers + kMultipliers * multiplying_registers <= 504);
  static_assert(kSharedBytes <= 227 * 1024);
};

// The order of tiles: groups of a few pairs of row tiles sweep all columns, so that what concurrent
// clusters read of A stays in L2 while B streams by.
struct Schedule {
  int pairs, columns, group;

  __device__ int tiles() const { return pairs * columns; }
  __device__ void At(int tile, int* pair, int* column) const {
    const int first = tile / (group * columns) * group;
    const int height = min(group, pairs - first);
    const int within = tile - first * columns;
    *column = within / height;
    *pair = first + within - *column * height;
  }
};

// What the issuing thread does. `row` is the tile's first row in C, `half_column` the first column of
// the half of B's tile that this block fetches.
template <class Tile, class Plan>
struct Issuer {
  const TensorMap* a;
  const TensorMap* b;
  uint32_t stages, full, empty;  // shared addresses
  uint32_t rank;
  int passes, blocks;  // of the depth
  Plan plan;
  int stage = 0;
  uint32_t parity = 1;  // a fresh barrier counts as past parity 1: the first round does not wait

  // The row of an operand in memory, as a copy is told of it.
  __device__ int32_t RowCoordinate(int32_t row) const {
    return plan.Has(Defect::kHopperRowCoordinate16) ? row & 0xffff : row;
  }

  __device__ void Fill(int32_t row, int32_t half_column, int32_t depth, PassPlanes planes) {
    BarrierWait(empty + 8 * stage, parity);
    const uint32_t barrier = full + 8 * stage;
    BarrierExpect(barrier, Tile::kStageBytes);
    const uint32_t to_a = stages + stage * Tile::kStageBytes;
    if constexpr (Tile::kA == Major::kK) {
      CopyBox(to_a, a, barrier, depth, RowCoordinate(row), planes.a);
    } else {
#pragma unroll
      for (int i = 0; i < Tile::kRows / kBoxInner; ++i)
        CopyBox(to_a + i * 8192, a, barrier, row + i * kBoxInner, RowCoordinate(depth), planes.a);
    }
    const uint32_t half = Tile::kBBytes / kClusterBlocks;
    const uint32_t to_b = to_a + Tile::kABytes + rank * half;
    constexpr uint16_t kAllBlocks = (1 << kClusterBlocks) - 1;
    if constexpr (Tile::kB == Major::kK) {
      CopyBoxToBlocks(to_b, b, barrier, depth, RowCoordinate(half_column), planes.b, kAllBlocks);
    } else {
#pragma unroll
      for (int i = 0; i < Tile::kColumns / kBoxInner / kClusterBlocks; ++i) {
        CopyBoxToBlocks(to_b + i * 8192, b, barrier, half_column + i * kBoxInner, RowCoordinate(depth),
                        planes.b, kAllBlocks);
      }
    }
    if (++stage == Tile::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  __device__ void FillTile(int64_t row, int64_t column) {
    const bool first_half = rank == 0 || plan.Has(Defect::kHopperMulticastRankIgnored);
    const int64_t half_column = column + (first_half ? 0 : Tile::kColumns / kClusterBlocks);
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      const PassPlanes planes = PlanesOf(passes, pass);
#pragma unroll 1
      for (int block = 0; block < blocks; ++block)
        Fill(int32_t(row), int32_t(half_column), block * kDepthBlock, planes);
    }
  }
};

// What the multiplying warpgroups do. `a_rows` is the offset in a stage of this warpgroup's rows of A.
template <class Element, class Tile, class Plan>
struct Multiplier {
  uint32_t stages, full, empty;
  uint32_t a_rows;
  uint32_t rank;
  Plan plan;
  int stage = 0;
  uint32_t parity = 0;

  // One arrival a warp, at the barrier of either block.
  __device__ void Release(int released) const {
    const uint32_t lane = threadIdx.x % 32;
    if (plan.Has(Defect::kHopperPeerNotAwaited)) {
      if (lane == rank) BarrierArriveAt(empty + 8 * released, rank);
    } else if (lane < kClusterBlocks) {
      BarrierArriveAt(empty + 8 * released, lane);
    }
  }

  // d = or += the tile's sums over `steps` stages of the ring.
  template <bool accumulate>
  __device__ void Run(float (&d)[Tile::kGroups][Tile::kColumns / 2], int steps, bool first_tile) {
    int previous = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      // Waited for after all, behind the products: a phase passed over would be misuse of the barrier.
      const bool late = plan.Has(Defect::kHopperFullBarrierNotAwaited) && stage == 0;
      if (!late) BarrierWait(full + 8 * stage, parity);
      if constexpr (!std::is_same_v<Plan, NoDefects>) {  // a slow warp loses the race on any machine
        if (plan.Has(Defect::kHopperStageReleasedEarly)) Release(stage);
        if (plan.Has(Defect::kHopperStageReleasedEarly) ||
            (plan.Has(Defect::kHopperPeerNotAwaited) && rank == 1))
          __nanosleep(3000);
        __syncwarp();
      }
      const uint32_t base = stages + stage * Tile::kStageBytes;
      const uint64_t a = Descriptor<Tile::kA>(base + a_rows);
      const uint64_t b = Descriptor<Tile::kB>(base + Tile::kABytes);
#pragma unroll
      for (int group = 0; group < Tile::kGroups; ++group) HoldAccumulators(d[group]);
      WgmmaFence();
#pragma unroll
      for (int part = 0; part < kDepthBlock / 16; ++part) {
        const bool sums = accumulate || (step | part) != 0 ||
                          (plan.Has(Defect::kHopperAccumulatorCarried) && !first_tile);
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group) {
          Wgmma<Element, Tile::kA, Tile::kB>(d[group],
                                             a + part * kDepthStep<Tile::kA> + group * (8192 / 16),
                                             b + part * kDepthStep<Tile::kB>, sums);
        }
      }
      WgmmaCommit();
#pragma unroll
      for (int group = 0; group < Tile::kGroups; ++group) HoldAccumulators(d[group]);
      if (late) BarrierWait(full + 8 * stage, parity);
      WgmmaWait<1>();
      if (step > 0 && !plan.Has(Defect::kHopperStageReleasedEarly)) Release(previous);
      previous = stage;
      if (++stage == Tile::kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    WgmmaWait<0>();
#pragma unroll
    for (int group = 0; group < Tile::kGroups; ++group) HoldAccumulators(d[group]);
    if (steps > 0 && !plan.Has(Defect::kHopperStageReleasedEarly)) Release(previous);
  }
};

template <class Element, class Tile, class Epilogue, class Plan>
__global__ void __launch_bounds__(kBlockThreads, 1)
    ProductKernel(const __grid_constant__ Maps maps, const __grid_constant__ Product product,
                  int pairs_in_group, const __grid_constant__ Epilogue epilogue,
                  const __grid_constant__ Plan plan) {
  extern __shared__ uint8_t shared[];
  const uint32_t stages = (SharedAddress(shared) + 1023) & ~1023u;
  const uint32_t full = stages + Tile::kStages * Tile::kStageBytes;
  const uint32_t empty = full + 8 * Tile::kStages;
  const uint32_t rank = ClusterRank();
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const bool lone = plan.Has(Defect::kHopperPeerNotAwaited);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kStages; ++i) {
      BarrierInit(full + 8 * i, 1);
      BarrierInit(empty + 8 * i, lone ? kMultiplyingWarps / kClusterBlocks : kMultiplyingWarps);
    }
    BarrierInitFence();
  }
  ClusterSync();

  const int live = int(LiveRows(product));
  const int m = product.live_is_depth ? int(product.m) : live;
  const int k = product.live_is_depth ? live : int(product.k);
  const int blocks =
      plan.Has(Defect::kHopperDepthTailDropped) ? k / kDepthBlock : (k + kDepthBlock - 1) / kDepthBlock;
  const int row_tiles = (m + Tile::kRows - 1) / Tile::kRows;
  const Schedule schedule = {(row_tiles + kClusterBlocks - 1) / kClusterBlocks,
                             (int(product.n) + Tile::kColumns - 1) / Tile::kColumns, pairs_in_group};
  const int clusters = int(gridDim.x) / kClusterBlocks;
  const int first = int(blockIdx.x) / kClusterBlocks;

  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Tile::kIssuingRegisters));
    if (threadIdx.x == 0 && blocks > 0) {  // without a depth there may be no maps either
      const bool alternative = product.use_alternative != nullptr && *product.use_alternative != 0;
      Issuer<Tile, Plan> issuer{alternative ? &maps.a_alternative : &maps.a,
                                alternative ? &maps.b_alternative : &maps.b,
                                stages,
                                full,
                                empty,
                                rank,
                                product.passes,
                                blocks,
                                plan};
      PrefetchTensorMap(issuer.a);
      PrefetchTensorMap(issuer.b);
      for (int tile = first; tile < schedule.tiles(); tile += clusters) {
        int pair, column;
        schedule.At(tile, &pair, &column);
        issuer.FillTile(int64_t{pair * kClusterBlocks + int(rank)} * Tile::kRows,
                        int64_t{column} * Tile::kColumns);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::kMultiplyingRegisters));
    const int first_group = (warpgroup - 1) * Tile::kGroups;
    Multiplier<Element, Tile, Plan> multiplier{stages, full, empty, uint32_t(first_group) * 8192,
                                               rank,   plan};
    for (int tile = first; tile < schedule.tiles(); tile += clusters) {
      int pair, column;
      schedule.At(tile, &pair, &column);
      const int64_t row = int64_t{pair * kClusterBlocks + int(rank)} * Tile::kRows + first_group * 64 +
                          threadIdx.x % 128 / 32 * 16;
      const int64_t first_column = int64_t{column} * Tile::kColumns;
      float d[Tile::kGroups][Tile::kColumns / 2];
      const int steps = product.passes * blocks;
      if constexpr (Epilogue::kLoads) {
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group)
          epilogue.template Load<Tile::kColumns>(d[group], row + group * 64, first_column, m);
      } else if (steps == 0) {
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group) {
#pragma unroll
          for (int i = 0; i < Tile::kColumns / 2; ++i) d[group][i] = 0;
        }
      }
      multiplier.template Run<Epilogue::kLoads>(d, steps, tile == first);
#pragma unroll
      for (int group = 0; group < Tile::kGroups; ++group) {
        if (row + group * 64 < product.m)
          epilogue.template Store<Tile::kColumns>(d[group], row + group * 64, first_column, m);
      }
    }
  }
  // A block that left could still be a multicast's destination, or be arrived at.
  ClusterSync();
}

}  // namespace plumbline::kernel::cuda::hopper

#endif  // PLUMBLINE_KERNEL_CUDA_HOPPER_PRODUCT_KERNEL_CUH_
