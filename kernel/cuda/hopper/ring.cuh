// SPDX-License-Identifier: Apache-2.0
//
// The ring of stages that connects the copies and the products of a block (product_kernel.cuh):
//   * full[s]: the bytes of stage s have arrived; the issuing thread's one arrival announces them
//   * empty[s]: stage s is free in all blocks that the copies go to; each warp that read it arrives
// A stage is released one step late, so that one group of wgmma is always in flight.
//
// For each pass and block of 64 of the depth, ascending, one chain of wgmma goes through the same
// accumulators.

#pragma once

#include <cstdint>

#include "kernel/cuda/hopper/mbarrier.cuh"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/tile_shape.cuh"
#include "kernel/cuda/hopper/tma.cuh"
#include "kernel/cuda/hopper/wgmma.cuh"
#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/product.h"

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
template <class Tile, class Hooks>
struct Issuer {
  const TensorMap* a;
  const TensorMap* b;
  uint32_t stages, full, empty;  // shared addresses
  Place<Tile> place;
  int passes;
  uint32_t stage_bytes;  // that arrive
  Hooks hooks;
  int stage = 0;
  uint32_t parity = 1;  // a fresh barrier counts as past parity 1: the first round does not wait

  // Copies share `part` of an operand's tile, which begins at row (or column) `first`, to the stages of
  // `to_blocks`.
  template <Major major, int extent, int sharers, bool streams = false>
  __device__ void Fetch(uint32_t to, const TensorMap* map, uint32_t barrier, int32_t first,
                        int32_t depth, int32_t plane, int part, uint16_t to_blocks) {
    using S = Share<major, extent, sharers>;
    const int from = hooks.MulticastPart(part);
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
        CopyBox(to + box, map, barrier, inner, hooks.RowCoordinate(row), plane);
      } else if constexpr (streams) {
        CopyBoxToBlocks(to + box, map, barrier, inner, hooks.RowCoordinate(row), plane, to_blocks,
                        passes == 1 ? kLeaveL2First : kKeepInL2);
      } else {
        CopyBoxToBlocks(to + box, map, barrier, inner, hooks.RowCoordinate(row), plane, to_blocks);
      }
    }
  }

  __device__ void Fill(int32_t row, int32_t column, int32_t depth, PassPlanes planes) {
    BarrierWait(empty + 8 * stage, parity);
    const uint32_t barrier = full + 8 * stage;
    BarrierExpect(barrier, stage_bytes);
    const uint32_t to = stages + stage * Tile::kStageBytes;
    Fetch<Tile::kA, Tile::kRows, Tile::kClusterColumns>(to, a, barrier, row, depth, planes.a,
                                                        int(place.column()), place.SharingA());
    Fetch<Tile::kB, Tile::kColumns, Tile::kClusterRows, Tile::kStreamsB>(
        to + Tile::kABytes, b, barrier, column, depth, planes.b, int(place.row()), place.SharingB());
    if (++stage == Tile::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  // `first`, `blocks`: of the depth.
  __device__ void FillTile(int64_t row, int64_t column, int first, int blocks) {
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      const PassPlanes planes = PlanesOf(passes, pass);
#pragma unroll 1
      for (int block = 0; block < blocks; ++block)
        Fill(int32_t(row), int32_t(column), (first + block) * kDepthBlock, planes);
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

// Stores in turn: a warpgroup adds to what the other one has stored before (Product::in_turn).
// Warpgroup w waits at named barrier 3 + w.
__device__ __forceinline__ void AwaitStore(int warpgroup) {
  if (warpgroup == 0) {
    asm volatile("bar.sync 3, 256;" ::: "memory");
  } else {
    asm volatile("bar.sync 4, 256;" ::: "memory");
  }
}
__device__ __forceinline__ void GiveStore(int warpgroup) {
  __threadfence_block();
  if (warpgroup == 0) {
    asm volatile("bar.arrive 3, 256;" ::: "memory");
  } else {
    asm volatile("bar.arrive 4, 256;" ::: "memory");
  }
}

// A multiplying warpgroup: multiplies the stages of its tiles and releases them.
template <class Element, class Tile, class Hooks>
struct Multiplier {
  uint32_t stages, full, empty;
  Place<Tile> place;
  Hooks hooks;
  int stage = 0;
  uint32_t parity = 0;

  // Each warp arrives at every block of the cluster, because all of them fetch for this one.
  __device__ void Release(int released) const {
    const uint32_t lane = threadIdx.x % 32;
    if (lane < Tile::kClusterBlocks)
      BarrierArriveAt(empty + 8 * released, hooks.ReleasedBlock(lane, place.rank));
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
      BarrierWait(full + 8 * stage, parity);
      if (next_turn >= 0 && step == steps - 1) GiveTurn(next_turn);
      const uint32_t base = stages + stage * Tile::kStageBytes;
      hooks.StageArrived(stage, base, Tile::kStageBytes);
      hooks.BeforeProducts(place.rank, [&] { Release(stage); });
      const uint64_t a = Descriptor<Tile::kA>(base);
      const uint64_t b = Descriptor<Tile::kB>(base + Tile::kABytes);
#pragma unroll
      for (int group = 0; group < Tile::kGroups; ++group) HoldAccumulators(d[group]);
      WgmmaFence();
#pragma unroll
      for (int part = 0; part < kDepthBlock / 16; ++part) {
        const bool sums = accumulate || (step | part) != 0 || !hooks.ClearsSums(first_tile);
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
      WgmmaWait<1>();
      if (step > 0 && hooks.ReleasesLate()) Release(previous);
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
    if (steps > 0 && hooks.ReleasesLate()) Release(previous);
  }
};

}  // namespace plumbline::kernel::cuda::hopper
