// SPDX-License-Identifier: Apache-2.0
//
// Both gradients of few rows in one sweep over weight. Each 64 columns of the vocabulary are fetched
// once: weight times their d_logits is added to grad_hidden, and d_logits times hidden is their part of
// grad_weight. With few rows the time is that of moving weight's bytes, and two products read more:
// grad_weight's reads hidden and d_logits for every tile, grad_hidden's reads weight.
//
// A cluster of two blocks computes 512 columns of hidden of one stretch of the vocabulary; each block
// has 256 of these columns, each of its two multiplying warpgroups 128. A block holds its columns of
// hidden in shared memory, all rows. A stage of the ring has weight's rows and d_logits of 64 columns
// of the vocabulary. Each block fetches half of these d_logits, which go to both. The same bytes of
// d_logits are one operand of both products: K-major for grad_hidden, MN-major for grad_weight.
//
// The products of 16 of the depth are those of product_kernel.cuh, in the same order, so both gradients
// have the same bits.

#pragma once

#include <cstdint>

#include "kernel/cuda/hopper/mbarrier.cuh"
#include "kernel/cuda/hopper/ring.cuh"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/tile_shape.cuh"
#include "kernel/cuda/hopper/tma.cuh"
#include "kernel/cuda/hopper/wgmma.cuh"
#include "kernel/cuda/product/wide_store.cuh"
#include "kernel/cuda/stages/path.h"
#include "kernel/cuda/support/hooks.cuh"
#include "kernel/cuda/support/overlap.cuh"

namespace plumbline::kernel::cuda::hopper {

struct SweepShape {
  static constexpr int kRows = kSweepRows, kRowBlocks = kRows / kDepthBlock;
  static constexpr int kColumns = 128;  // of hidden, of a warpgroup
  static constexpr int kClusterBlocks = 2;
  static constexpr int kBlockColumns = kMultipliers * kColumns;
  static constexpr int kUnitColumns = kClusterBlocks * kBlockColumns;
  static constexpr int kStages = 3;
  static constexpr int kBoxBytes = kDepthBlock * kBoxInner * 2;  // 64 rows of 128 bytes
  static constexpr int kBoxes = kBlockColumns / kBoxInner;       // side by side, of weight or hidden
  static constexpr int kDLogitsBytes = kRowBlocks * kBoxBytes;
  static constexpr int kStageBytes = kDLogitsBytes + kBoxes * kBoxBytes;
  static constexpr int kHiddenBytes = kRowBlocks * kBoxes * kBoxBytes;
  static constexpr int kScratchBytes = 4 * kMultipliers * kWarpScratchBytes;
  static constexpr int kBarriers = 2 * kStages + 2;
  static constexpr int kSharedBytes =
      kStages * kStageBytes + kHiddenBytes + kScratchBytes + kBarriers * 8 + 1024;
  static_assert(kSharedBytes <= 227 * 1024);
  static_assert(kUnitColumns == kSweepColumns);
  static_assert(kRows == kClusterBlocks * kDepthBlock);  // each block fetches a box of d_logits
};

struct SweepMaps {
  TensorMap d_logits, weight, hidden, hidden_alternative;
};

template <class Element>
struct Sweep {
  const int32_t* live_rows = nullptr;        // device; null: all rows take part
  const int32_t* use_alternative = nullptr;  // of hidden; device; null: never
  int rows = 0, columns = 0;                 // of d_logits
  int stretch = 0, stretches = 1;            // columns of a stretch, a multiple of 64
  int pairs = 0;                             // units side by side
  int hidden_columns = 0;
  AccumulateEpilogue grad_hidden;
  GradWeightLines<Element> grad_weight;
};

// What all threads of a block know. A unit is what a cluster computes at a time.
template <class Element, class Hooks>
struct SweepBlock {
  using Shape = SweepShape;
  const Sweep<Element>& sweep;
  const Hooks& hooks;
  uint32_t stages, hidden, scratch, full, empty, hidden_full, hidden_empty;  // shared addresses
  uint32_t rank;                                                             // in the cluster
  int live;                                                                  // rows that take part

  __device__ int Units() const { return live > 0 ? sweep.pairs * sweep.stretches : 0; }
  __device__ int First() const { return int(blockIdx.x) / Shape::kClusterBlocks; }
  __device__ int After(int unit) const { return unit + int(gridDim.x) / Shape::kClusterBlocks; }
  // Returns the row at which a box of 64 rows begins. One without a live row is taken from past the
  // extent, where all is 0: what lies in memory there may be NaN.
  __device__ int RowOf(int box) const {
    const int row = box * kDepthBlock;
    return hooks.RowCoordinate(row < hooks.Depth(live, kDepthBlock, Shape::kRows) ? row : kBeyond);
  }
  static constexpr int kBeyond = 1 << 30;
  // Units of a stretch are neighbours, so clusters read the same d_logits at about the same time.
  __device__ int StretchOf(int unit) const { return unit / sweep.pairs; }
  __device__ int HiddenColumn(int unit) const {
    return unit % sweep.pairs * Shape::kUnitColumns + int(rank) * Shape::kBlockColumns;
  }
  __device__ int FirstColumn(int unit) const { return StretchOf(unit) * sweep.stretch; }
  __device__ int Steps(int unit) const {
    const int left = sweep.columns - FirstColumn(unit);
    return ((left < sweep.stretch ? left : sweep.stretch) + kDepthBlock - 1) / kDepthBlock;
  }
};

// The issuing thread.
template <class Element, class Hooks>
__device__ __forceinline__ void IssueSweep(const SweepBlock<Element, Hooks> block,
                                           const SweepMaps& maps) {
  using Shape = SweepShape;
  const Sweep<Element>& sweep = block.sweep;
  const bool alternative = sweep.use_alternative != nullptr && *sweep.use_alternative != 0;
  const TensorMap* const hidden = alternative ? &maps.hidden_alternative : &maps.hidden;
  PrefetchTensorMap(&maps.d_logits);
  PrefetchTensorMap(&maps.weight);
  PrefetchTensorMap(hidden);
  int stage = 0;
  uint32_t parity = 1, hidden_parity = 1;
  for (int unit = block.First(); unit < block.Units(); unit = block.After(unit)) {
    const int column = block.HiddenColumn(unit);
    BarrierWait(block.hidden_empty, hidden_parity);
    hidden_parity ^= 1;
    BarrierExpect(block.hidden_full, Shape::kHiddenBytes);
#pragma unroll
    for (int i = 0; i < Shape::kRowBlocks * Shape::kBoxes; ++i) {
      CopyBox(block.hidden + i * Shape::kBoxBytes, hidden, block.hidden_full,
              column + i % Shape::kBoxes * kBoxInner, block.RowOf(i / Shape::kBoxes), 0);
    }
    const int first = block.FirstColumn(unit), steps = block.Steps(unit);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const int from = first + step * kDepthBlock;
      BarrierWait(block.empty + 8 * stage, parity);
      const uint32_t barrier = block.full + 8 * stage;
      BarrierExpect(barrier, Shape::kStageBytes);
      const uint32_t to = block.stages + stage * Shape::kStageBytes;
      CopyBoxToBlocks(to + block.rank * Shape::kBoxBytes, &maps.d_logits, barrier, from,
                      block.RowOf(block.hooks.MulticastPart(int(block.rank))), 0, 3);
#pragma unroll
      for (int i = 0; i < Shape::kBoxes; ++i) {
        CopyBox(to + Shape::kDLogitsBytes + i * Shape::kBoxBytes, &maps.weight, barrier,
                column + i * kBoxInner, block.hooks.RowCoordinate(from), 0);
      }
      if (++stage == Shape::kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }
}

// Issues the products of a stage, one group for each gradient. `hidden` describes the warpgroup's
// columns of hidden; its columns of weight begin `own_boxes` bytes behind the stage's first.
template <class Element, class Hooks>
__device__ __forceinline__ void IssueProducts(
    float (&of_weight)[SweepShape::kColumns / 2],
    float (&of_hidden)[SweepShape::kRowBlocks][SweepShape::kColumns / 2], uint32_t stage,
    uint64_t hidden, uint32_t own_boxes, bool first_step, const Hooks& hooks) {
  using Shape = SweepShape;
  constexpr int kBox = Shape::kBoxBytes / 16;
  const uint64_t d_logits_rows = Descriptor<Major::kK>(stage);
  const uint64_t d_logits_columns = Descriptor<Major::kMN>(stage);
  const uint64_t weight = Descriptor<Major::kMN>(stage + Shape::kDLogitsBytes + own_boxes);
  HoldAccumulators(of_weight);
#pragma unroll
  for (int g = 0; g < Shape::kRowBlocks; ++g) HoldAccumulators(of_hidden[g]);
  WgmmaFence();
#pragma unroll
  for (int part = 0; part < Shape::kRows / 16; ++part) {
    constexpr int kParts = kDepthBlock / 16;
    const int b = part / kParts, depth = part % kParts * int(kDepthStep<Major::kMN>);
    const bool sums = part != 0 || !hooks.ClearsSums(first_step);
    Wgmma<Element, Major::kMN, Major::kMN>(of_weight, d_logits_columns + (b * kBox + depth),
                                           hidden + (b * (Shape::kBoxes * kBox) + depth), sums);
  }
  WgmmaCommit();
#pragma unroll
  for (int part = 0; part < kDepthBlock / 16; ++part) {
#pragma unroll
    for (int g = 0; g < Shape::kRowBlocks; ++g) {
      Wgmma<Element, Major::kK, Major::kMN>(of_hidden[g],
                                            d_logits_rows + g * kBox + part * kDepthStep<Major::kK>,
                                            weight + part * kDepthStep<Major::kMN>, 1);
    }
  }
  WgmmaCommit();
}

// A multiplying warpgroup.
template <class Element, class Hooks>
__device__ __forceinline__ void ConsumeSweep(const SweepBlock<Element, Hooks> block, int warpgroup) {
  using Shape = SweepShape;
  constexpr int kBoxesEach = Shape::kBoxes / kMultipliers;
  const Sweep<Element>& sweep = block.sweep;
  const int warp = int(threadIdx.x) / 32 - 4, row = warp % 4 * kFragmentRows;
  const uint32_t lane = threadIdx.x % 32;
  const WarpScratch scratch = {block.scratch + uint32_t(warp) * kWarpScratchBytes};
  const int own = (warpgroup - 1) * Shape::kColumns;
  const uint32_t own_boxes = uint32_t((warpgroup - 1) * kBoxesEach * Shape::kBoxBytes);
  const uint64_t hidden = Descriptor<Major::kMN>(block.hidden + own_boxes);
  int stage = 0;
  uint32_t parity = 0, hidden_parity = 0;
  for (int unit = block.First(); unit < block.Units(); unit = block.After(unit)) {
    const int column = block.HiddenColumn(unit) + own;
    const int first = block.FirstColumn(unit), steps = block.Steps(unit);
    float of_hidden[Shape::kRowBlocks][Shape::kColumns / 2], of_weight[Shape::kColumns / 2];
#pragma unroll
    for (int g = 0; g < Shape::kRowBlocks; ++g) {
      sweep.grad_hidden.template Load<Shape::kColumns>(of_hidden[g], row + g * 64, column, block.live);
    }
    BarrierWait(block.hidden_full, hidden_parity);
    hidden_parity ^= 1;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      BarrierWait(block.full + 8 * stage, parity);
      const uint32_t base = block.stages + stage * Shape::kStageBytes;
      block.hooks.StageArrived(stage, base, Shape::kStageBytes);
      const auto release = [&] {
        if (lane < Shape::kClusterBlocks)
          BarrierArriveAt(block.empty + 8 * stage, block.hooks.ReleasedBlock(lane, block.rank));
      };
      block.hooks.BeforeProducts(block.rank, release);
      IssueProducts<Element>(of_weight, of_hidden, base, hidden, own_boxes, step == 0, block.hooks);
#pragma unroll
      for (int g = 0; g < Shape::kRowBlocks; ++g) HoldAccumulators(of_hidden[g]);
      HoldAccumulators(of_weight);
      // grad_weight's rows are stored while grad_hidden's products run.
      WgmmaWait<1>();
      HoldAccumulators(of_weight);
      sweep.grad_weight.template Store<Shape::kColumns>(of_weight, first + step * kDepthBlock + row,
                                                        column, block.live, scratch);
      WgmmaWait<0>();
#pragma unroll
      for (int g = 0; g < Shape::kRowBlocks; ++g) HoldAccumulators(of_hidden[g]);
      if (block.hooks.ReleasesLate()) release();
      if (++stage == Shape::kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    if (lane == 0) BarrierArriveAt(block.hidden_empty, block.rank);
    const AccumulateEpilogue sums = sweep.grad_hidden.Of(block.StretchOf(unit));
#pragma unroll
    for (int g = 0; g < Shape::kRowBlocks; ++g)
      sums.template Store<Shape::kColumns>(of_hidden[g], row + g * 64, column, block.live, scratch);
  }
}

// Stores zeros for grad_weight: no row takes part.
template <class Element>
__device__ __forceinline__ void StoreZeros(const Sweep<Element>& sweep) {
  constexpr int kColumnsALine = 8;
  const int64_t lines = sweep.hidden_columns / kColumnsALine;
  for (int64_t i = blockIdx.x * int64_t{kBlockThreads} + threadIdx.x; i < sweep.columns * lines;
       i += int64_t{gridDim.x} * kBlockThreads) {
    Element* const row = sweep.grad_weight.grad_weight + i / lines * sweep.grad_weight.row_stride;
    *reinterpret_cast<uint4*>(row + i % lines * kColumnsALine) = {};
  }
}

template <class Element, class Hooks>
__global__ void __launch_bounds__(kBlockThreads, 1)
    SweepKernel(const __grid_constant__ SweepMaps maps, const __grid_constant__ Sweep<Element> sweep,
                const __grid_constant__ Hooks hooks) {
  using Shape = SweepShape;
  extern __shared__ uint8_t shared[];
  constexpr Registers kShare = kRegisters<false>;
  const uint32_t stages = (SharedAddress(shared) + 1023) & ~1023u;
  const uint32_t hidden = stages + Shape::kStages * Shape::kStageBytes;
  const uint32_t scratch = hidden + Shape::kHiddenBytes;
  const uint32_t full = scratch + Shape::kScratchBytes, empty = full + 8 * Shape::kStages;
  const uint32_t hidden_full = empty + 8 * Shape::kStages, hidden_empty = hidden_full + 8;
  constexpr int kWarps = kWarpsAStage * kMultipliers;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      BarrierInit(full + 8 * i, 1);
      BarrierInit(empty + 8 * i, kWarps * Shape::kClusterBlocks);
    }
    BarrierInit(hidden_full, 1);
    BarrierInit(hidden_empty, kWarps);
    BarrierInitFence();
  }
  ClusterSync();
  AwaitPreviousGrid();
  AllowNextGrid();
  int live = sweep.rows;
  if (sweep.live_rows != nullptr && *sweep.live_rows < live) live = *sweep.live_rows;
  const SweepBlock<Element, Hooks> block = {sweep,        hooks,         stages, hidden,
                                            scratch,      full,          empty,  hidden_full,
                                            hidden_empty, ClusterRank(), live};
  if (live <= 0) StoreZeros(sweep);
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kShare.issuing));
    if (threadIdx.x == 0) IssueSweep(block, maps);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kShare.multiplying));
    ConsumeSweep(block, warpgroup);
  }
  // No block leaves early: it could still be a multicast's destination, or be arrived at.
  ClusterSync();
}

}  // namespace plumbline::kernel::cuda::hopper
