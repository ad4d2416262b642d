// SPDX-License-Identifier: Apache-2.0
//
// Forward's epilogue: reduces a tile of logits, in registers, to what it adds to its rows' softmax. No
// logit is stored. With c = log2 e / T it writes for each row of a tile of BN columns:
//
//   max     the largest logit, NaN if any is
//   sum     sum of 2^y, y = c (z - max)
//   moment  sum of y 2^y, which is -log2 e times the sum of e^-t t
//
// The moment is left out where nobody asks for an entropy.
//
// Columns past the vocabulary count as -infinity, whose weight is exactly 0; a real logit could reach
// any finite sentinel. A tile's numbers depend on the row and the tile's columns alone, so neither the
// schedule nor other rows can change a bit of them.

#pragma once

#include <cstdint>

#include "kernel/cuda/product/fragment.cuh"

namespace plumbline::kernel::cuda {

// What becomes of the moment: it is stored, or left out, or stored if there is memory for it.
enum class Moment { kStored, kLeftOut, kAsked };

struct SoftmaxEpilogue {
  static constexpr bool kLoads = false;

  // Indexed by row, in the order of A's rows.
  const int64_t* label = nullptr;  // -1: none
  const float* scale = nullptr;    // c
  float* label_logit = nullptr;    // written by the one tile that has it
  // [tile][row], `stride` elements a tile.
  float* max = nullptr;
  float* sum = nullptr;
  float* moment = nullptr;  // null: left out
  int64_t stride = 0;
  int64_t columns = 0;       // of this launch
  int64_t first_column = 0;  // of the vocabulary, where this launch begins; a multiple of the tile

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch) const {
    Reduce<BN, Moment::kStored>(d, row, column, live_rows, [](int, int, float, float) {});
  }

 protected:
  // Reduces a tile. For each row of a lane, the first (h = 0) before the second, it calls
  //   take(h, j, y of column 8 j + 2 (lane % 4), y of the next)
  // with ascending j, on all lanes at once.
  template <int BN, Moment kMoment, class Take>
  __device__ void Reduce(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                         const Take& take) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int64_t first_row = row + lane / 4;
    const int offset = lane % 4 * 2;
    if (column + BN > columns) EndColumns<BN>(d, static_cast<int>(columns - column));
    const int64_t tile = (first_column + column) / BN;
    StoreLabelLogits<BN>(d, first_row, first_column + column + offset, live_rows);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t r = first_row + 8 * h;
      const bool live = r < live_rows;
      StoreRow<BN, kMoment>(d, h, live ? scale[r] : 0.0f, live && lane % 4 == 0, tile * stride + r,
                            take);
    }
  }

 private:
  template <int BN, Moment kMoment, class Take>
  __device__ void StoreRow(const float (&d)[BN / 2], int h, float c, bool mine, int64_t at,
                           const Take& take) const {
    const float largest = RowMaximum<BN>(d, h);
    // There are two chains, so that one addition need not wait for the other.
    float s[2] = {0, 0}, t[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      float y[2];
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        y[q] = Exponent(d[4 * j + 2 * h + q], largest, c);
        const float e = Exp2(y[q]);
        s[q] += e;
        if constexpr (kMoment != Moment::kLeftOut) t[q] = fmaf(e, y[q], t[q]);
      }
      take(h, j, y[0], y[1]);
    }
    float total = s[0] + s[1], weighted = t[0] + t[1];
#pragma unroll
    for (int step = 1; step <= 2; ++step) {
      total += __shfl_xor_sync(kAllLanes, total, step);
      if constexpr (kMoment != Moment::kLeftOut) weighted += __shfl_xor_sync(kAllLanes, weighted, step);
    }
    if (mine) {
      max[at] = largest;
      sum[at] = total;
      if constexpr (kMoment == Moment::kStored) moment[at] = weighted;
      if constexpr (kMoment == Moment::kAsked) {
        if (moment != nullptr) moment[at] = weighted;
      }
    }
  }

  // The accumulators are never indexed at run time, which would put them in local memory. Most warps
  // have no label among their columns and return early.
  template <int BN>
  __device__ void StoreLabelLogits(const float (&d)[BN / 2], int64_t row, int64_t column,
                                   int64_t live_rows) const {
    int at[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t r = row + 8 * h;
      const int64_t distance = r < live_rows ? label[r] - column : -1;
      const bool here = distance >= 0 && distance < BN && (distance & 6) == 0;
      at[h] = here ? static_cast<int>(distance) : -1;
    }
    if (!__any_sync(kAllLanes, at[0] >= 0 || at[1] >= 0)) return;
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) {
      const int h = i / 2 % 2;
      if (at[h] == i / 4 * 8 + i % 2) label_logit[row + 8 * h] = d[i];
    }
  }
};

// Reduces a tile to its maximum and its sum.
struct SumAlone : SoftmaxEpilogue {
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch) const {
    Reduce<BN, Moment::kLeftOut>(d, row, column, live_rows, [](int, int, float, float) {});
  }
};

}  // namespace plumbline::kernel::cuda
