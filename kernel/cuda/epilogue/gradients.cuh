// SPDX-License-Identifier: Apache-2.0
//
// The epilogues of the two gradients. grad_hidden is summed in stretches (kernel/stretches.h), in fp32.
// A product that is a part of a stretch continues from the accumulators of the part before, so that the
// chain of an element is the same whatever the chunks; one that ends its stretch adds to the totals.
// grad_weight is complete after one product, and is rounded once; with blocks of rows after one product
// for each.

#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda {

// Sets a fragment to what lies in `sums`, [row, column], or to 0 where there is none: from `rows` and
// `columns` on. ld is even, so a pair that begins inside of a row is inside of memory.
template <int BN>
__device__ __forceinline__ void LoadSums(float (&d)[BN / 2], const float* sums, int64_t ld, int64_t row,
                                         int64_t column, int64_t rows, int64_t columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < BN / 2; i += 2) {
    const int64_t r = row + lane / 4 + i / 2 % 2 * 8, c = column + i / 4 * 8 + lane % 4 * 2;
    float2 was = {0, 0};
    if (sums != nullptr && r < rows && c < columns)
      was = *reinterpret_cast<const float2*>(&sums[r * ld + c]);
    d[i] = was.x;
    d[i + 1] = was.y;
  }
}

struct AccumulateEpilogue {
  static constexpr bool kLoads = true;
  static constexpr bool kIsGradient = true;

  float* totals = nullptr;  // of stretches that have ended: [row, column]
  float* sums = nullptr;    // of the stretch so far, likewise; null: each product is a whole stretch
  int64_t ld = 0;           // of both; even
  int64_t columns = 0;
  bool begins = true, ends = true;  // this product: its stretch
  bool first = true;                // no stretch has ended before
  // Elements between the totals of one stretch and those of the next (Product::stretch); 0 where each
  // adds to those of the one before.
  int64_t apart = 0;

  // Returns the epilogue of stretch number `stretch` of the product.
  __device__ AccumulateEpilogue Of(int stretch) const {
    AccumulateEpilogue own = *this;
    own.totals += stretch * apart;
    own.first = first && (stretch == 0 || apart != 0);
    return own;
  }

  template <int BN>
  __device__ void Load(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
    LoadSums<BN>(d, begins ? nullptr : sums, ld, row, column, live_rows, columns);
  }

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const bool adds = ends && !first;
    // This lane's first pair, the rows of its two that live, and its columns from there on.
    float* const to =
        (ends ? totals : sums) + (row + lane / 4) * ld + column + static_cast<int64_t>(lane % 4 * 2);
    const bool lives[2] = {row + lane / 4 < live_rows, row + lane / 4 + 8 < live_rows};
    const int64_t left = columns - column - lane % 4 * 2;
    const int width = left < BN ? static_cast<int>(left) : BN;
    // What is there of a row is read at once. A wait for memory before every store took 20 us a tile.
    constexpr int kPairs = BN / 8;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float2* const pairs = reinterpret_cast<float2*>(to + h * 8 * ld);
      if (adds) {
        float2 before[kPairs];
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          before[j] = {0, 0};
          if (lives[h] && j * 8 < width) before[j] = pairs[j * 4];
        }
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          d[j * 4 + h * 2] = before[j].x + d[j * 4 + h * 2];
          d[j * 4 + h * 2 + 1] = before[j].y + d[j * 4 + h * 2 + 1];
        }
      }
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        if (lives[h] && j * 8 < width) pairs[j * 4] = {d[j * 4 + h * 2], d[j * 4 + h * 2 + 1]};
      }
    }
  }
};

// An output element's dtype, chosen at run time, because only the store depends on it.
enum class Stored : int { kBf16, kF16, kF32 };

__device__ inline void StoreAs(Stored as, void* base, int64_t at, float x) {
  switch (as) {
    case Stored::kBf16:
      static_cast<__nv_bfloat16*>(base)[at] = Narrow<__nv_bfloat16>(x);
      break;
    case Stored::kF16:
      static_cast<__half*>(base)[at] = Narrow<__half>(x);
      break;
    case Stored::kF32:
      static_cast<float*>(base)[at] = x;
      break;
  }
}

struct GradWeightEpilogue {
  static constexpr bool kLoads = false;
  static constexpr bool kIsGradient = true;

  void* grad_weight = nullptr;  // at the chunk's first row
  Stored stored = Stored::kF32;
  int64_t row_stride = 0, column_stride = 0;  // elements; any
  int64_t rows = 0, columns = 0;              // of the chunk

  // live_rows is not used: it bounds the depth of this product, which the main loop has done.
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t, Scratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8;
      const int64_t c = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (r < rows && c < columns)
        StoreAs(stored, grad_weight, r * row_stride + c * column_stride, d[i]);
    }
  }
};

// Stores grad_weight where rows are contiguous, 16-byte aligned and whole tiles wide. It makes a kernel
// of its own, because beside the general code it took 1.05 times as long (bench/NOTES.md, 9).
template <class Output>
struct GradWeightLines {
  static constexpr bool kLoads = false;
  static constexpr bool kIsGradient = true;

  Output* grad_weight = nullptr;
  int64_t row_stride = 0;
  int64_t rows = 0;

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t,
                        Scratch scratch) const {
    Output* const to = grad_weight + row * row_stride + column;
    if constexpr (sizeof(Output) == 2) {
      StoreWide<Output, BN>(to, row_stride, rows - row, scratch, [&](int, int i) { return d[i]; });
    } else {
      const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
      for (int i = 0; i < BN / 2; i += 2) {
        const int r = lane / 4 + i / 2 % 2 * 8;
        if (r < rows - row)
          *reinterpret_cast<float2*>(to + r * row_stride + i / 4 * 8 + lane % 4 * 2) = {d[i], d[i + 1]};
      }
    }
  }
};

// grad_weight of a block of rows of several: its chain goes on from the sums of the blocks before, and
// leaves sums. A store of the output would take registers that the accumulators need.
struct GradWeightBlockEpilogue {
  static constexpr bool kLoads = true;
  static constexpr bool kIsGradient = true;

  float* sums = nullptr;          // at the chunk's first row: [row, column]
  int64_t ld = 0;                 // even
  bool first = true;              // of the blocks
  int64_t rows = 0, columns = 0;  // of the chunk

  // live_rows is not used, as in GradWeightEpilogue.
  template <int BN>
  __device__ void Load(float (&d)[BN / 2], int64_t row, int64_t column, int64_t) const {
    LoadSums<BN>(d, first ? nullptr : sums, ld, row, column, rows, columns);
  }
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t, Scratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < BN / 2; i += 2) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8, c = column + i / 4 * 8 + lane % 4 * 2;
      if (r < rows && c < columns) *reinterpret_cast<float2*>(&sums[r * ld + c]) = {d[i], d[i + 1]};
    }
  }
};

// Returns the epilogue of lines of that output, where it is valid for tiles of that many columns.
template <class Output>
std::optional<GradWeightLines<Output>> LinesOf(const GradWeightEpilogue& epilogue, int tile_columns) {
  constexpr Stored kStored = std::is_same_v<Output, float>    ? Stored::kF32
                             : std::is_same_v<Output, __half> ? Stored::kF16
                                                              : Stored::kBf16;
  if (epilogue.stored != kStored || epilogue.column_stride != 1 ||
      epilogue.columns % tile_columns != 0 ||
      !RowsAligned(epilogue.grad_weight, epilogue.row_stride, sizeof(Output)))
    return std::nullopt;
  return GradWeightLines<Output>{static_cast<Output*>(epilogue.grad_weight), epilogue.row_stride,
                                 epilogue.rows};
}

// Calls `launch` with the most special epilogue that is valid for tiles of that many columns.
template <class Element, class Launch>
auto KnowingLines(const GradWeightEpilogue& epilogue, int tile_columns, const Launch& launch) {
  if (const auto lines = LinesOf<float>(epilogue, tile_columns)) return launch(*lines);
  if (const auto lines = LinesOf<Element>(epilogue, tile_columns)) return launch(*lines);
  return launch(epilogue);
}

}  // namespace plumbline::kernel::cuda
