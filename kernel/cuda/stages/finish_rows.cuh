// SPDX-License-Identifier: Apache-2.0
//
// FinishRows of kernel/cuda/stages/finish.h as a template over hooks (kernel/cuda/support/hooks.cuh).

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/stages/finish.h"
#include "kernel/cuda/support/launch.h"
#include "kernel/cuda/support/overlap.cuh"

namespace plumbline::kernel::cuda {

inline constexpr int64_t kMostFinishBlocks = 65536;

namespace finish_rows {

inline constexpr int kRows = 16;  // of a block: half a line of partial sums of each tile
inline constexpr int kChains = 32;
// Tiles of a chain that are loaded before the first of them is used. The compiler puts no load before
// a store to memory that may be the same, so tiles' offsets would be waited for one by one.
inline constexpr int kBatch = 16;
inline constexpr float kLn2 = 0.693147180559945309f;

__device__ inline void StoreRow(const ForwardList& list, const ForwardOutputs& outputs, SavedRow* saved,
                                int64_t place, float max, float sum, float moment, float label_logit) {
  const int64_t i = list.source[place];
  const float temperature = list.temperature[place];
  // A row has no softmax where its sum is 0: every logit is -infinity, or one is NaN or +infinity.
  const bool defined = sum > 0;
  const float log_sum = logf(sum);
  const float mean_gap = -kLn2 * moment / sum;
  const float label_gap = (max - label_logit) / temperature;
  const float logprob = defined ? 0.0f - (label_gap + log_sum) : QuietNaN();
  if (outputs.logprob != nullptr) outputs.logprob[i * outputs.logprob_stride] = logprob;
  if (outputs.row_logprob != nullptr) outputs.row_logprob[i] = logprob;
  const float entropy = defined ? log_sum + mean_gap : QuietNaN();
  if (outputs.entropy != nullptr) outputs.entropy[i * outputs.entropy_stride] = entropy;
  if (outputs.row_entropy != nullptr) outputs.row_entropy[i] = entropy;
  const float lse = defined ? max / temperature + log_sum : QuietNaN();
  if (outputs.lse != nullptr) outputs.lse[i * outputs.lse_stride] = lse;
  if (outputs.row_lse != nullptr) outputs.row_lse[i] = lse;
  if (saved != nullptr) saved[i] = {max, defined ? sum : QuietNaN(), mean_gap, label_logit};
}

struct ChainSums {
  float sum = 0, moment = 0;
};

// A row's tiles, of which a chain has each 32nd.
struct RowTiles {
  const PartialSums& partial;
  int64_t row;    // of the partial sums
  int64_t tiles;  // 0: the row is not there

  __device__ int64_t At(int64_t tile) const { return tile * partial.stride + row; }

  __device__ float MaxOfChain(int chain) const {
    float max = MinusInfinity();
#pragma unroll 1
    for (int64_t first = chain; first < tiles; first += kChains * kBatch) {
      float tile_max[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int64_t tile = first + k * kChains;
        tile_max[k] = tile < tiles ? partial.max[At(tile)] : MinusInfinity();
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) max = MaxNaN(max, tile_max[k]);
    }
    return max;
  }

  // Adds the chain's sums relative to the row's `max`. Stores each tile's exponent: offsets of a kept
  // tile are of this row from `offsets` on, null: none are kept.
  __device__ ChainSums SumsOfChain(int chain, float max, float scale, float* offsets,
                                   int64_t first_kept) const {
    ChainSums sums;
#pragma unroll 1
    for (int64_t first = chain; first < tiles; first += kChains * kBatch) {
      float tile_max[kBatch], sum[kBatch], moment[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int64_t tile = first + k * kChains, at = At(tile < tiles ? tile : first);
        tile_max[k] = partial.max[at];
        sum[k] = partial.sum[at];
        moment[k] = partial.moment != nullptr ? partial.moment[at] : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int64_t tile = first + k * kChains;
        if (tile >= tiles) break;
        const float y = Exponent(tile_max[k], max, scale), factor = Exp2(y);
        sums.sum = fmaf(factor, sum[k], sums.sum);
        if (partial.moment != nullptr) {
          sums.moment = fmaf(factor, fmaf(y, sum[k], moment[k]), sums.moment);
        }
        if (offsets != nullptr && tile >= first_kept) offsets[tile - first_kept] = y;
      }
    }
    return sums;
  }
};

template <class Hooks>
__global__ void __launch_bounds__(kRows* kChains)
    FinishRowsKernel(const PartialSums partial, const ForwardList list, const ForwardOutputs outputs,
                     SavedRow* saved, const Hooks hooks) {
  // The rows are padded by one column: a chain writes along rows, the tree reads along chains.
  __shared__ float a[kChains][kRows + 1], b[kChains][kRows + 1];
  const int lane = static_cast<int>(threadIdx.x % kRows), chain = static_cast<int>(threadIdx.x / kRows);
  AwaitPreviousGrid();
  const int64_t live = list.census->live;
  for (int64_t block = blockIdx.x; block * kRows < partial.rows; block += gridDim.x) {
    const int64_t row = block * kRows + lane, place = partial.first + row;
    const bool there = row < partial.rows && place < live;
    if (block * kRows + partial.first >= live) return;  // the same for all threads
    const float scale = there ? list.scale[place] : 0.0f;
    const RowTiles tiles = {partial, row, there ? partial.tiles : 0};
    float max = tiles.MaxOfChain(chain);
    a[chain][lane] = max;
    __syncthreads();
    for (int c = 0; c < kChains; ++c) max = MaxNaN(max, a[c][lane]);
    float* const offsets =
        outputs.offsets.data != nullptr ? outputs.offsets.data + place * outputs.offsets.ld : nullptr;
    const ChainSums sums = tiles.SumsOfChain(chain, max, scale, offsets, outputs.offsets.first);
    __syncthreads();
    hooks.StoreChain(sums.sum, &a[chain][lane], &a[0][lane]);
    hooks.StoreChain(sums.moment, &b[chain][lane], &b[0][lane]);
    __syncthreads();
    for (int half = kChains / 2; half > 0; half /= 2) {
      if (chain < half) {
        a[chain][lane] += a[chain + half][lane];
        b[chain][lane] += b[chain + half][lane];
      }
      __syncthreads();
    }
    if (chain == 0 && there) {
      StoreRow(list, outputs, saved, place, max, a[0][lane], b[0][lane], partial.label_logit[place]);
    }
    __syncthreads();
  }
}

}  // namespace finish_rows

template <class Hooks>
Status LaunchFinishRows(const PartialSums& partial, const ForwardList& list,
                        const ForwardOutputs& outputs, SavedRow* saved, cudaStream_t stream,
                        const Hooks& hooks) {
  using finish_rows::kRows, finish_rows::kChains;
  const int64_t blocks = std::min((partial.rows + kRows - 1) / kRows, kMostFinishBlocks);
  if (blocks == 0) return Status::Ok();
  return LaunchKernelEarly("FinishRows", finish_rows::FinishRowsKernel<Hooks>, blocks, kRows * kChains,
                           0, stream, partial, list, outputs, saved, hooks);
}

}  // namespace plumbline::kernel::cuda
