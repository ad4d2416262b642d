// SPDX-License-Identifier: Apache-2.0
//
// The main loop of all matrix products on Hopper: C = A B^T by tiles, with an epilogue for each tile.
// Blocks are persistent and come in clusters, which compute neighbouring tiles of C. Two blocks that
// need the same tile of A or B each fetch a share, which goes to both. In a block one thread of the
// first warpgroup issues the copies. Two more warpgroups multiply and run the epilogue on their
// registers. They take turns, a tile each, so that one's epilogue overlaps with the other's products.
// During a gradient's product the first warpgroup's other warps may compute d_logits of another chunk
// (kept_warp.cuh). A ring of stages connects the copies and the products:
//   * full[s]: the bytes of stage s have arrived; the issuing thread's one arrival announces them
//   * empty[s]: stage s is free in all blocks that the copies go to; each warp that read it arrives
// A stage is released one step late, so that one group of wgmma is always in flight.
//
// One block computes a tile, so no result depends on the grid, on the block's rank or on other tiles.
// For each pass and block of 64 of the depth, ascending, one chain of wgmma goes through the same
// accumulators. Beyond the operands' extents there are zeros, which change no sum. Where tiles do not
// fill a cluster, its other blocks compute on zeros or unused rows and store nothing.

#ifndef PLUMBLINE_KERNEL_CUDA_HOPPER_PRODUCT_KERNEL_CUH_
#define PLUMBLINE_KERNEL_CUDA_HOPPER_PRODUCT_KERNEL_CUH_

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/hopper/kept_warp.cuh"
#include "kernel/cuda/hopper/mbarrier.cuh"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/tile_shape.cuh"
#include "kernel/cuda/hopper/tma.cuh"
#include "kernel/cuda/hopper/wgmma.cuh"
#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/product.h"
#include "kernel/cuda/product/schedule.h"
#include "kernel/cuda/support/defects.h"
#include "kernel/cuda/support/overlap.cuh"

namespace plumbline::kernel::cuda::hopper {

// A block's position in its cluster of one or two.
template <class Tile>
struct Place {
  uint32_t rank;

  __device__ uint32_t row() const { return Tile::kClusterRows > 1 ? rank : 0; }
  __device__ uint32_t column() const { return Tile::kClusterColumns > 1 ? rank : 0; }
  // Masks of the blocks that have its rows of A, or its columns of B: a bit each.
  __device__ uint16_t SharingA() const { return Sharing(Tile::kClusterColumns); }
  __device__ uint16_t SharingB() const { return Sharing(Tile::kClusterRows); }

 private:
  __device__ uint16_t Sharing(int sharers) const { return uint16_t(sharers > 1 ? 3u : 1u << rank); }
};

// The issuing thread: fills the stages of the ring by copies.
template <class Tile, class Plan>
struct Issuer {
  const TensorMap* a;
  const TensorMap* b;
  uint32_t stages, full, empty;  // shared addresses
  Place<Tile> place;
  int passes, blocks;  // of the depth
  Plan plan;
  int stage = 0;
  uint32_t parity = 1;  // a fresh barrier counts as past parity 1: the first round does not wait

  // Returns the coordinate that a copy is given for a row of an operand.
  __device__ int32_t RowCoordinate(int32_t row) const {
    return plan.Has(Defect::kHopperRowCoordinate16) ? row & 0xffff : row;
  }

  // Copies share `part` of an operand's tile, which begins at row (or column) `first`, to the stages of
  // `to_blocks`. `from` is the share that is read; it is `part` but for a planted defect.
  template <Major major, int extent, int sharers>
  __device__ void Fetch(uint32_t to, const TensorMap* map, uint32_t barrier, int32_t first,
                        int32_t depth, int32_t plane, int part, int from, uint16_t to_blocks) {
    using S = Share<major, extent, sharers>;
#pragma unroll
    for (int i = 0; i < S::kBoxes; ++i) {
      int32_t inner = depth, row = first + from * S::kBoxRows;
      uint32_t box = part * S::kBoxRows * 128;
      if constexpr (major == Major::kMN) {
        inner = first + (S::kWholeBoxes ? from * S::kBoxes + i : i) * kBoxInner;
        row = depth + (S::kWholeBoxes ? 0 : from * S::kBoxRows);
        box = S::kWholeBoxes ? (part * S::kBoxes + i) * 8192 : i * 8192 + part * S::kBoxRows * 128;
      }
      if constexpr (sharers == 1) {
        CopyBox(to + box, map, barrier, inner, RowCoordinate(row), plane);
      } else {
        CopyBoxToBlocks(to + box, map, barrier, inner, RowCoordinate(row), plane, to_blocks);
      }
    }
  }

  __device__ void Fill(int32_t row, int32_t column, int32_t depth, PassPlanes planes) {
    BarrierWait(empty + 8 * stage, parity);
    const uint32_t barrier = full + 8 * stage;
    BarrierExpect(barrier, Tile::kStageBytes);
    const uint32_t to = stages + stage * Tile::kStageBytes;
    const bool first_share = plan.Has(Defect::kHopperMulticastRankIgnored);
    const int part_a = int(place.column()), part_b = int(place.row());
    Fetch<Tile::kA, Tile::kRows, Tile::kClusterColumns>(to, a, barrier, row, depth, planes.a, part_a,
                                                        first_share ? 0 : part_a, place.SharingA());
    Fetch<Tile::kB, Tile::kColumns, Tile::kClusterRows>(to + Tile::kABytes, b, barrier, column, depth,
                                                        planes.b, part_b, first_share ? 0 : part_b,
                                                        place.SharingB());
    if (++stage == Tile::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  __device__ void FillTile(int64_t row, int64_t column) {
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      const PassPlanes planes = PlanesOf(passes, pass);
#pragma unroll 1
      for (int block = 0; block < blocks; ++block)
        Fill(int32_t(row), int32_t(column), block * kDepthBlock, planes);
    }
  }
};

// The turns of the multiplying warpgroups. A wait for a stage distinguishes a phase from the one before
// it alone, so the next warpgroup may wait for a stage only once this one has seen the last of its own
// arrive. Warpgroup w waits at named barrier 1 + w.
__device__ __forceinline__ void AwaitTurn(int warpgroup) {
  if (warpgroup == 0) {
    asm volatile("bar.sync 1, 256;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 256;" ::: "memory");
  }
}
__device__ __forceinline__ void GiveTurn(int warpgroup) {
  if (warpgroup == 0) {
    asm volatile("bar.arrive 1, 256;" ::: "memory");
  } else {
    asm volatile("bar.arrive 2, 256;" ::: "memory");
  }
}

// A multiplying warpgroup: multiplies the stages of its tiles and releases them.
template <class Element, class Tile, class Plan>
struct Multiplier {
  uint32_t stages, full, empty;
  Place<Tile> place;
  Plan plan;
  int stage = 0;
  uint32_t parity = 0;

  // Each warp arrives at every block of the cluster, because all of them fetch for this one.
  __device__ void Release(int released) const {
    const uint32_t lane = threadIdx.x % 32;
    if (plan.Has(Defect::kHopperPeerNotAwaited)) {
      if (lane == place.rank) BarrierArriveAt(empty + 8 * released, lane);
    } else if (lane < Tile::kClusterBlocks) {
      BarrierArriveAt(empty + 8 * released, lane);
    }
  }

  // Skips the stages that the other warpgroup consumes.
  __device__ void Skip(int steps) {
    const uint32_t at = uint32_t(stage) + uint32_t(steps);
    stage = int(at % Tile::kStages);
    parity ^= at / Tile::kStages & 1;
  }

  // Sets d to the tile's sums over `steps` stages, or adds them (`accumulate`). Warpgroup next_turn, if
  // not negative, gets the turn once the last stage is there: its products then queue behind these.
  template <bool accumulate>
  __device__ void Run(float (&d)[Tile::kGroups][Tile::kColumns / 2], int steps, bool first_tile,
                      int next_turn) {
    int previous = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      // Waited for after all, behind the products: a phase passed over would be misuse of the barrier.
      const bool late = plan.Has(Defect::kHopperFullBarrierNotAwaited) && stage == 0;
      if (!late) BarrierWait(full + 8 * stage, parity);
      if (next_turn >= 0 && step == steps - 1) GiveTurn(next_turn);
      if constexpr (!std::is_same_v<Plan, NoDefects>) {  // a slow warp loses the race on any machine
        if (plan.Has(Defect::kHopperStageReleasedEarly)) Release(stage);
        if (plan.Has(Defect::kHopperStageReleasedEarly) ||
            (plan.Has(Defect::kHopperPeerNotAwaited) && place.rank != 0))
          __nanosleep(3000);
        __syncwarp();
      }
      const uint32_t base = stages + stage * Tile::kStageBytes;
      const uint64_t a = Descriptor<Tile::kA>(base);
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
  }

  __device__ void Finish(float (&d)[Tile::kGroups][Tile::kColumns / 2], int steps) {
    WgmmaWait<0>();
#pragma unroll
    for (int group = 0; group < Tile::kGroups; ++group) HoldAccumulators(d[group]);
    const int previous = (stage == 0 ? Tile::kStages : stage) - 1;
    if (steps > 0 && !plan.Has(Defect::kHopperStageReleasedEarly)) Release(previous);
  }
};

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

// The grad_hidden beside which a grad_weight begins (Product::beside_previous): rows and depth are the
// other way round. A cluster computes unit_rows by unit_columns of it; 0: there is none.
struct Transposed {
  int unit_rows = 0, unit_columns = 0;

  // Returns the load of grad_hidden; m, n and k are grad_weight's.
  __device__ Load Of(int m, int n, int k) const {
    return {(k + unit_rows - 1) / unit_rows * ((n + unit_columns - 1) / unit_columns),
            TimeOfUnit(unit_rows, unit_columns, m)};
  }
  // Returns the time of a cluster's tile with that depth, up to a factor.
  __device__ static float TimeOfUnit(int rows, int columns, int depth) {
    return float(rows * columns) * float((depth + kDepthBlock - 1) / kDepthBlock);
  }
};

template <class Element, class Tile, class Epilogue, class Plan>
__global__ void __launch_bounds__(kBlockThreads, 1)
    ProductKernel(const __grid_constant__ Maps maps, const __grid_constant__ Product product,
                  const __grid_constant__ Transposed before, const __grid_constant__ Epilogue epilogue,
                  const __grid_constant__ Plan plan) {
  extern __shared__ uint8_t shared[];
  const uint32_t stages = (SharedAddress(shared) + 1023) & ~1023u;
  const uint32_t scratch = stages + Tile::kStages * Tile::kStageBytes;
  const uint32_t full = scratch + Tile::kScratchBytes;
  const uint32_t empty = full + 8 * Tile::kStages;
  const Place<Tile> place{ClusterRank()};
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const bool lone = plan.Has(Defect::kHopperPeerNotAwaited);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kStages; ++i) {
      BarrierInit(full + 8 * i, 1);
      BarrierInit(empty + 8 * i, kWarpsAStage * (lone ? 1 : Tile::kClusterBlocks));
    }
    BarrierInitFence();
  }
  ClusterSync();
  if (!product.beside_previous) AwaitPreviousGrid();
  AllowNextGrid();

  const int live = int(LiveRows(product));
  const int m = product.live_is_depth ? int(product.m) : live;
  const int k = product.live_is_depth ? live : int(product.k);
  const int blocks =
      plan.Has(Defect::kHopperDepthTailDropped) ? k / kDepthBlock : (k + kDepthBlock - 1) / kDepthBlock;
  const int n = int(product.n);
  const Schedule schedule = {(m + Tile::kUnitRows - 1) / Tile::kUnitRows,
                             (n + Tile::kUnitColumns - 1) / Tile::kUnitColumns};
  Deal deal = {int(gridDim.x) / Tile::kClusterBlocks, {}};
  if (before.unit_rows > 0) {
    deal.head =
        HeadBeside(deal.clusters, before.Of(m, n, k),
                   {schedule.tiles(), Transposed::TimeOfUnit(Tile::kUnitRows, Tile::kUnitColumns, k)});
  }
  const int first = deal.First(int(blockIdx.x) / Tile::kClusterBlocks);
  const auto row_of = [&](int unit) {
    return (int64_t{unit} * Tile::kClusterRows + place.row()) * Tile::kRows;
  };
  const auto column_of = [&](int unit) {
    return (int64_t{unit} * Tile::kClusterColumns + place.column()) * Tile::kColumns;
  };

  if (warpgroup == 0) {
    asm volatile(
        "setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters<IsGradient<Epilogue>()>.issuing));
    if constexpr (IsGradient<Epilogue>()) {
      if (threadIdx.x >= 32) {
        const int warp = int(threadIdx.x / 32) - 1;
        const uint32_t ring = empty + 8 * Tile::kStages + warp * kKeptRingBytes;
        KeptWarp<Element>{ring + threadIdx.x % 32 * 16}.Run(product, warp);
      }
    }
    if (threadIdx.x == 0 && blocks > 0) {  // without a depth there may be no maps either
      const bool alternative = product.use_alternative != nullptr && *product.use_alternative != 0;
      Issuer<Tile, Plan> issuer{alternative ? &maps.a_alternative : &maps.a,
                                alternative ? &maps.b_alternative : &maps.b,
                                stages,
                                full,
                                empty,
                                place,
                                product.passes,
                                blocks,
                                plan};
      PrefetchTensorMap(issuer.a);
      PrefetchTensorMap(issuer.b);
      for (int tile = first; tile < schedule.tiles(); tile = deal.After(tile)) {
        int row, column;
        schedule.At(tile, &row, &column);
        issuer.FillTile(row_of(row), column_of(column));
      }
    }
  } else {
    asm volatile(
        "setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters<IsGradient<Epilogue>()>.multiplying));
    Multiplier<Element, Tile, Plan> multiplier{stages, full, empty, place, plan};
    constexpr int kRowBytes = RowBytes<Epilogue>();
    const uint32_t warp = threadIdx.x / 32 - 4;
    const uint32_t exchange = scratch + warp * kWarpScratchBytes;
    const uint32_t own_rows =
        empty + 8 * Tile::kStages + warp * (Tile::kGroups * kFragmentRows * kRowBytes);
    const int steps = product.passes * blocks;
    const int turn = warpgroup - 1;
    multiplier.Skip(turn * steps);
    if (turn == 1 && first < schedule.tiles()) GiveTurn(0);
    const int own_first = turn == 0 ? first : deal.After(first);
    for (int tile = own_first, next = 0; tile < schedule.tiles(); tile = deal.After(next)) {
      next = deal.After(tile);
      int unit_row, unit_column;
      schedule.At(tile, &unit_row, &unit_column);
      const int64_t row = row_of(unit_row) + threadIdx.x % 128 / 32 * 16;
      const int64_t column = column_of(unit_column);
      float d[Tile::kGroups][Tile::kColumns / 2];
      if constexpr (Epilogue::kLoads) {
#pragma unroll
        for (int g = 0; g < Tile::kGroups; ++g)
          epilogue.template Load<Tile::kColumns>(d[g], row + g * 64, column, m);
      } else if (steps == 0) {
#pragma unroll
        for (int g = 0; g < Tile::kGroups; ++g) {
#pragma unroll
          for (int i = 0; i < Tile::kColumns / 2; ++i) d[g][i] = 0;
        }
      }
      if constexpr (kRowBytes != 0) FetchRows<Tile>(epilogue, row, m, own_rows);
      AwaitTurn(turn);
      const int next_turn = next < schedule.tiles() ? 1 - turn : -1;
      if (steps == 0 && next_turn >= 0) GiveTurn(next_turn);
      multiplier.template Run<Epilogue::kLoads>(d, steps, tile == own_first, next_turn);
      multiplier.Finish(d, steps);
      multiplier.Skip(steps);
      if constexpr (kRowBytes != 0) AwaitRows();
#pragma unroll
      for (int g = 0; g < Tile::kGroups; ++g) {
        const WarpScratch own_scratch = {exchange, own_rows + g * (kFragmentRows * kRowBytes)};
        if (row + g * 64 < product.m && column < product.n)
          epilogue.template Store<Tile::kColumns>(d[g], row + g * 64, column, m, own_scratch);
      }
    }
  }
  // No block leaves early: it could still be a multicast's destination, or be arrived at.
  ClusterSync();
  // Later launches take the end of this grid for the end of those before it. A wait further up would be
  // reached at once by the 31 lanes beside the issuing thread, which would hold their warp, and so that
  // thread, until the grid before has ended (bench/NOTES.md, 16).
  if (product.beside_previous) AwaitPreviousGrid();
}

}  // namespace plumbline::kernel::cuda::hopper

#endif  // PLUMBLINE_KERNEL_CUDA_HOPPER_PRODUCT_KERNEL_CUH_
