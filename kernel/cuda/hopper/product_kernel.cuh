// SPDX-License-Identifier: Apache-2.0
//
// The main loop of matrix products on Hopper: C = A B^T by tiles, with an epilogue for each tile.
// Both gradients of few rows have another one (sweep_kernel.cuh).
// Blocks are persistent and come in clusters, which compute neighbouring tiles of C. Two blocks that
// need the same tile of A or B each fetch a share, which goes to both. In a block one thread of the
// first warpgroup issues the copies. Two more warpgroups multiply and run the epilogue on their
// registers. They take turns, a tile each, so that one's epilogue overlaps with the other's products.
// During a gradient's product the first warpgroup's other warps may compute d_logits of another chunk
// (kept_warp.cuh). A ring of stages connects the copies and the products (ring.cuh). Clusters wait for
// others that are far behind, so that more of the reads are served by L2 (pace.cuh).
//
// One block computes a tile, so no result depends on the grid, on the block's rank or on other tiles.
// Beyond the operands' extents there are zeros, which change no sum. Rows that are not fetched
// (TileShape::FetchedRows) may hold anything, and nothing that is made of them is stored. Where tiles
// do not fill a cluster, its other blocks compute on zeros or unused rows and store nothing.

#pragma once

#include <cstdint>

#include "kernel/cuda/hopper/kept_warp.cuh"
#include "kernel/cuda/hopper/mbarrier.cuh"
#include "kernel/cuda/hopper/pace.cuh"
#include "kernel/cuda/hopper/ring.cuh"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/tile_shape.cuh"
#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/product.h"
#include "kernel/cuda/product/schedule.h"
#include "kernel/cuda/support/overlap.cuh"

namespace plumbline::kernel::cuda::hopper {

// Copies the epilogue's data of this warp's rows, kFragmentRows of each group from `row` on, to shared
// memory: asynchronously, each lane its own rows. Rows past the last live one become zeros.
template <class Tile, class Epilogue>
__device__ __forceinline__ void FetchRows(const Epilogue& epilogue, int64_t row, int64_t live_rows,
                                          uint32_t to) {
  constexpr int kBytes = RowBytes<Epilogue>(), kRows = Tile::kGroups * kFragmentRows;
#pragma unroll
  for (int i = int(threadIdx.x % 32); i < kRows; i += 32) {
    const int64_t r = row + i / kFragmentRows * 64 + i % kFragmentRows;
    const bool lives = r < live_rows;
    const auto* const from = reinterpret_cast<const uint8_t*>(epilogue.rows + (lives ? r : 0));
#pragma unroll
    for (int at = 0; at < kBytes; at += 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i * kBytes + at),
                   "l"(from + at), "r"(lives ? 16 : 0)
                   : "memory");
    }
  }
}
// Waits for the copies of the whole warp.
__device__ __forceinline__ void AwaitRows() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
}

// The grad_hidden beside which a grad_weight begins (Product::beside_depth): rows and depth are the
// other way round. A cluster computes unit_rows by unit_columns of it; 0: there is none.
struct Transposed {
  int unit_rows = 0, unit_columns = 0;
  int depth = 0, stretches = 1;

  // Returns the load of grad_hidden; n and k are grad_weight's.
  __device__ Load Of(int n, int k) const {
    return {(k + unit_rows - 1) / unit_rows * ((n + unit_columns - 1) / unit_columns) * stretches,
            TimeOfUnit(unit_rows, unit_columns, depth / stretches)};
  }
  // Returns the time of a cluster's tile with that depth, up to a factor.
  __device__ static float TimeOfUnit(int rows, int columns, int depth) {
    return float(rows * columns) * float((depth + kDepthBlock - 1) / kDepthBlock);
  }
};

// A part of the depth, in blocks.
struct Depth {
  int first, blocks;
};

// What a cluster computes at a time: a tile of a stretch.
struct Step {
  int tile, stretch;
};

// What all threads of a block know of their product. It is passed by value: by reference nvcc 13.0
// makes other machine code.
template <class Tile, class Epilogue, class Hooks>
struct Block {
  const Product& product;
  const Epilogue& epilogue;
  const Hooks& hooks;
  uint32_t stages, scratch, full, empty;  // shared addresses
  uint32_t behind;  // shared address after the barriers: the rings of KeptWarp, or the epilogue's data
  Place<Tile> place;
  int warpgroup;      // of this thread
  int m;              // rows that take part
  int depth_blocks;   // of the depth that takes part
  Schedule schedule;  // of a stretch
  int stretches;
  Deal deal;

  // Blocks of the depth of a stretch, of which the last one may have fewer.
  __device__ int StretchBlocks() const {
    if constexpr (!HasStretches<Epilogue>()) return depth_blocks;
    return product.stretch > 0 ? int(product.stretch) / kDepthBlock : depth_blocks;
  }
  // The steps of a cluster are its tiles of one stretch after another, or, in turn, all stretches of
  // one tile after another.
  __device__ bool InTurn() const { return HasStretches<Epilogue>() && product.in_turn; }
  __device__ bool Has(Step step) const {
    return step.tile < schedule.tiles() && (!HasStretches<Epilogue>() || step.stretch < stretches);
  }
  __device__ Step First() const {
    return Settled({deal.First(int(blockIdx.x) / Tile::kClusterBlocks), 0});
  }
  // Returns the step after one that there is.
  __device__ Step After(Step step) const {
    if (InTurn() && step.stretch + 1 < stretches) return {step.tile, step.stretch + 1};
    return Settled({deal.After(step.tile), InTurn() ? 0 : step.stretch});
  }
  // Turns a tile past the last one into one of a later stretch.
  __device__ Step Settled(Step step) const {
    if constexpr (HasStretches<Epilogue>()) {
      while (!product.in_turn && step.tile >= schedule.tiles() && step.stretch < stretches) {
        step.tile -= schedule.tiles();
        ++step.stretch;
      }
    }
    return step;
  }
  __device__ Depth DepthOf(Step step) const {
    if constexpr (!HasStretches<Epilogue>()) return {0, depth_blocks};
    const int stretch = StretchBlocks(), first = step.stretch * stretch, left = depth_blocks - first;
    return {first, left < stretch ? left : stretch};
  }
  // Return where the block's tile begins, in a unit of the schedule.
  __device__ int64_t RowOf(int unit) const {
    return (int64_t{unit} * Tile::kClusterRows + place.row()) * Tile::kRows;
  }
  __device__ int64_t ColumnOf(int unit) const {
    return (int64_t{unit} * Tile::kClusterColumns + place.column()) * Tile::kColumns;
  }
};

// Makes the ring, awaits the previous grid, and then finds the block's part of the product.
template <class Tile, class Epilogue, class Hooks>
__device__ __forceinline__ Block<Tile, Epilogue, Hooks> SetUp(const Product& product,
                                                              const Transposed& before,
                                                              const Epilogue& epilogue,
                                                              const Hooks& hooks) {
  extern __shared__ uint8_t shared[];
  const uint32_t stages = (SharedAddress(shared) + 1023) & ~1023u;
  const uint32_t scratch = stages + Tile::kStages * Tile::kStageBytes;
  const uint32_t full = scratch + Tile::kScratchBytes;
  const uint32_t empty = full + 8 * Tile::kStages;
  const Place<Tile> place{ClusterRank()};
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kStages; ++i) {
      BarrierInit(full + 8 * i, 1);
      BarrierInit(empty + 8 * i, kWarpsAStage * Tile::kClusterBlocks);
    }
    BarrierInitFence();
  }
  ClusterSync();
  if (!product.beside_previous) AwaitPreviousGrid();
  AllowNextGrid();

  const int live = int(LiveRows(product));
  const int m = product.live_is_depth ? int(product.m) : live;
  const int k = hooks.Depth(product.live_is_depth ? live : int(product.k), kDepthBlock, int(product.k));
  const int depth_blocks = (k + kDepthBlock - 1) / kDepthBlock;
  const int n = int(product.n);
  const Schedule schedule = {(m + Tile::kUnitRows - 1) / Tile::kUnitRows,
                             (n + Tile::kUnitColumns - 1) / Tile::kUnitColumns};
  Deal deal = {int(gridDim.x) / Tile::kClusterBlocks, {}};
  if (before.unit_rows > 0) {
    deal.head =
        HeadBeside(deal.clusters, before.Of(n, k),
                   {schedule.tiles(), Transposed::TimeOfUnit(Tile::kUnitRows, Tile::kUnitColumns, k)});
  }
  int stretches = 1;
  if (HasStretches<Epilogue>() && product.stretch > 0)
    stretches = (k + int(product.stretch) - 1) / int(product.stretch);
  return {
      product, epilogue,  hooks, stages,       scratch,  full,      empty, empty + 8 * Tile::kStages,
      place,   warpgroup, m,     depth_blocks, schedule, stretches, deal};
}

// The issuing thread: enqueues the copies of all the block's tiles.
template <class Tile, class Epilogue, class Hooks>
__device__ __forceinline__ void Produce(const Block<Tile, Epilogue, Hooks> block, const Maps& maps) {
  const Product& product = block.product;
  const bool alternative = product.use_alternative != nullptr && *product.use_alternative != 0;
  Issuer<Tile, Hooks> issuer{alternative ? &maps.a_alternative : &maps.a,
                             alternative ? &maps.b_alternative : &maps.b,
                             block.stages,
                             block.full,
                             block.empty,
                             block.place,
                             product.passes,
                             uint32_t(Tile::FetchedBytes(product.m)),
                             block.hooks};
  PrefetchTensorMap(issuer.a);
  PrefetchTensorMap(issuer.b);
  // In turn clusters keep pace tile by tile, else step by step.
  const int tiles = block.schedule.tiles(), paced = block.InTurn() ? tiles : tiles * block.stretches;
  Pace pace = PaceOf(product.begun, block.place.rank, block.deal, paced,
                     product.passes * (block.InTurn() ? block.depth_blocks : block.StretchBlocks()));
  for (Step step = block.First(); block.Has(step); step = block.After(step)) {
    if (!block.InTurn() || step.stretch == 0) {
      const int number = block.InTurn() ? step.tile : step.stretch * tiles + step.tile;
      pace.Begin(product.begun, block.deal, int(blockIdx.x) / Tile::kClusterBlocks, number, paced);
    }
    int row, column;
    block.schedule.At(step.tile, &row, &column);
    const Depth depth = block.DepthOf(step);
    issuer.FillTile(block.RowOf(row), block.ColumnOf(column), depth.first, depth.blocks);
  }
}

// A multiplying warpgroup: computes every other one of the block's steps and stores it by the epilogue.
template <class Element, class Tile, class Epilogue, class Hooks>
__device__ __forceinline__ void Consume(const Block<Tile, Epilogue, Hooks> block) {
  const Epilogue& epilogue = block.epilogue;
  Multiplier<Element, Tile, Hooks> multiplier{block.stages, block.full, block.empty, block.place,
                                              block.hooks};
  constexpr int kRowBytes = RowBytes<Epilogue>();
  const uint32_t warp = threadIdx.x / 32 - 4;
  const uint32_t exchange = block.scratch + warp * kWarpScratchBytes;
  const uint32_t own_rows = block.behind + warp * (Tile::kGroups * kFragmentRows * kRowBytes);
  // The last stretch may have fewer.
  const int whole = block.product.passes * block.StretchBlocks();
  const auto stages_of = [&](Step step) {
    return HasStretches<Epilogue>() ? block.product.passes * block.DepthOf(step).blocks : whole;
  };
  const int turn = block.warpgroup - 1;
  // Without a live row there is no step to ask about.
  const Step first = block.First();
  if (!block.Has(first)) return;
  if (turn == 1) {
    multiplier.Skip(stages_of(first));
    GiveTurn(0);
    if (block.InTurn()) GiveStore(0);
  }
  bool first_step = true;
  Step step = turn == 0 ? first : block.After(first);
  while (block.Has(step)) {
    const Step next = block.After(step);
    const bool last = !block.Has(next);
    const int stages = stages_of(step);
    int unit_row, unit_column;
    block.schedule.At(step.tile, &unit_row, &unit_column);
    const int64_t row = block.RowOf(unit_row) + threadIdx.x % 128 / 32 * 16;
    const int64_t column = block.ColumnOf(unit_column);
    float d[Tile::kGroups][Tile::kColumns / 2];
    if constexpr (Epilogue::kLoads) {
#pragma unroll
      for (int g = 0; g < Tile::kGroups; ++g)
        epilogue.template Load<Tile::kColumns>(d[g], row + g * 64, column, block.m);
    } else if (stages == 0) {
#pragma unroll
      for (int g = 0; g < Tile::kGroups; ++g) {
#pragma unroll
        for (int i = 0; i < Tile::kColumns / 2; ++i) d[g][i] = 0;
      }
    }
    if constexpr (kRowBytes != 0) FetchRows<Tile>(epilogue, row, block.m, own_rows);
    AwaitTurn(turn);
    const int next_turn = last ? -1 : 1 - turn;
    if (stages == 0 && next_turn >= 0) GiveTurn(next_turn);
    multiplier.template Run<Epilogue::kLoads>(d, stages, first_step, next_turn);
    multiplier.Finish(d, stages);
    if (!last) multiplier.Skip(stages_of(next));
    if constexpr (kRowBytes != 0) AwaitRows();
    if (block.InTurn()) AwaitStore(turn);
#pragma unroll
    for (int g = 0; g < Tile::kGroups; ++g) {
      const WarpScratch own_scratch = {exchange, own_rows + g * (kFragmentRows * kRowBytes)};
      if (row + g * 64 >= block.product.m || column >= block.product.n) continue;
      if constexpr (HasStretches<Epilogue>()) {
        epilogue.Of(step.stretch)
            .template Store<Tile::kColumns>(d[g], row + g * 64, column, block.m, own_scratch);
      } else {
        epilogue.template Store<Tile::kColumns>(d[g], row + g * 64, column, block.m, own_scratch);
      }
    }
    if (last) return;
    if (block.InTurn()) GiveStore(next_turn);
    first_step = false;
    step = block.After(next);
  }
}

template <class Element, class Tile, class Epilogue, class Hooks>
__global__ void __launch_bounds__(kBlockThreads, 1)
    ProductKernel(const __grid_constant__ Maps maps, const __grid_constant__ Product product,
                  const __grid_constant__ Transposed before, const __grid_constant__ Epilogue epilogue,
                  const __grid_constant__ Hooks hooks) {
  constexpr Registers kShare = kRegisters<IsGradient<Epilogue>()>;
  const auto block = SetUp<Tile>(product, before, epilogue, hooks);
  if (block.warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kShare.issuing));
    if constexpr (IsGradient<Epilogue>()) {
      if (threadIdx.x >= 32) {
        const int warp = int(threadIdx.x / 32) - 1;
        const uint32_t ring = block.behind + warp * kKeptRingBytes;
        KeptWarp<Element>{ring + threadIdx.x % 32 * 16}.Run(product, warp);
      }
    }
    // Without a depth there may be no maps either.
    if (threadIdx.x == 0 && block.depth_blocks > 0) Produce(block, maps);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kShare.multiplying));
    Consume<Element>(block);
  }
  // No block leaves early: it could still be a multicast's destination, or be arrived at.
  ClusterSync();
  // Later launches take the end of this grid for the end of those before it. A wait further up would be
  // reached at once by the 31 lanes beside the issuing thread, which would hold their warp, and so that
  // thread, until the grid before has ended (bench/NOTES.md, 16).
  if (product.beside_previous) AwaitPreviousGrid();
}

}  // namespace plumbline::kernel::cuda::hopper
