// SPDX-License-Identifier: Apache-2.0
//
// Computes d_logits of a row and a chunk from logits, or from exponents, that forward kept. They are
// what DLogitsEpilogue makes of a product's accumulators, by the same functions, element by element.

#pragma once

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/epilogue/d_logits.cuh"
#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/kept_chunk.h"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda {

inline constexpr int kKeptColumns = 8;  // of a thread at a time: 16 bytes of d_logits
inline constexpr int64_t kKeptRowBlock = 64;

// Returns the rows that have to be written: those on the list, and zeros up to a multiple of what a
// product reads at a time.
__device__ inline int64_t KeptRows(const KeptChunk& chunk) {
  return (*chunk.live + kKeptRowBlock - 1) / kKeptRowBlock * kKeptRowBlock;
}

template <bool kInPlanes, class Element>
__device__ __forceinline__ void StoreKept(const float (&dz)[kKeptColumns], Element* to,
                                          int64_t plane_stride) {
  if constexpr (kInPlanes) {
    struct alignas(16) Line {
      Element x[kKeptColumns];
    } lines[kPlanes];
#pragma unroll
    for (int i = 0; i < kKeptColumns; ++i) {
      const Planes split = SplitPlanes(dz[i]);
      lines[0].x[i] = split.lo;
      lines[1].x[i] = split.mid;
      lines[2].x[i] = split.hi;
      lines[3].x[i] = split.raw;
    }
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) *reinterpret_cast<Line*>(to + p * plane_stride) = lines[p];
  } else {
    // nvcc 13.0 makes four stores of an assignment.
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "r"(PackPair<Element>(dz[0], dz[1])), "r"(PackPair<Element>(dz[2], dz[3])),
                 "r"(PackPair<Element>(dz[4], dz[5])), "r"(PackPair<Element>(dz[6], dz[7]))
                 : "memory");
  }
}

// Neighbouring columns of a row as forward kept them: kKeptColumns from a multiple of that on.
struct LogitLine {
  float z[kKeptColumns];
};
// Tiles are a multiple of kKeptColumns wide, so the columns are of one tile.
struct ExponentLine {
  uint4 exponents;
  float offset;
};

// Row r of the list, or a row of zeros behind it.
template <bool kExponents>
struct KeptRow {
  using Kept = std::conditional_t<kExponents, uint16_t, float>;
  using Line = std::conditional_t<kExponents, ExponentLine, LogitLine>;

  const KeptChunk& chunk;
  RowGradient gradient;
  const Kept* kept = nullptr;      // null: forward kept none for this row
  const float* offsets = nullptr;  // of exponents
  int columns;                     // of the chunk; 0 in a row of zeros
  int label;                       // in the chunk, -1: not there

  __device__ __forceinline__ KeptRow(const KeptChunk& of, int64_t r) : chunk(of) {
    const bool alive = r < *chunk.live;
    gradient = alive ? chunk.rows[r] : RowGradient{.label = -1};
    columns = alive ? chunk.columns : 0;
    const int64_t place = alive ? chunk.slot[chunk.source[r]] : -1;
    if (place >= 0) {
      if constexpr (kExponents) {
        kept = chunk.exponents + place * chunk.kept_ld;
        offsets = chunk.offsets.data + place * chunk.offsets.ld;
      } else {
        kept = chunk.logits + place * chunk.kept_ld;
      }
    }
    const int64_t at = gradient.label - chunk.first_column;
    label = gradient.label >= 0 && at >= 0 && at < columns ? static_cast<int>(at) : -1;
  }

  // Returns the offset of the tile of a column of the chunk, for exponents.
  __device__ __forceinline__ float Offset(int column) const {
    // Divisions by constants are cheap; there are no tiles of other widths
    // (kernel/cuda/layout/workspace.h).
    const auto v = static_cast<uint32_t>(chunk.first_column) + static_cast<uint32_t>(column);
    const uint32_t tile = chunk.tile_columns == 128 ? v / 128 : v / 192;
    return offsets[tile - static_cast<uint32_t>(chunk.offsets.first)];
  }

  // Returns the columns from `column` on. It is read once: the caches evict it first.
  __device__ __forceinline__ Line Load(int column) const {
    if constexpr (kExponents) {
      return {__ldcs(reinterpret_cast<const uint4*>(kept + column)), Offset(column)};
    } else {
      Line line;
#pragma unroll
      for (int i = 0; i < kKeptColumns; i += 4) {
        const float4 four = __ldcs(reinterpret_cast<const float4*>(kept + column + i));
        line.z[i] = four.x;
        line.z[i + 1] = four.y;
        line.z[i + 2] = four.z;
        line.z[i + 3] = four.w;
      }
      return line;
    }
  }

  // Returns the columns from `column` on, of which fewer than a line are in the chunk.
  __device__ __forceinline__ Line LoadSome(int column) const {
    if constexpr (kExponents) {
      return Load(column);  // rows are whole lines
    } else {
      Line line = {};
#pragma unroll
      for (int i = 0; i < kKeptColumns; ++i) {
        if (column + i < columns) line.z[i] = kept[column + i];
      }
      return line;
    }
  }

  // Sets dz to d_logits of the chunk's columns from `column` on, from their line.
  __device__ __forceinline__ void Gradients(int column, const Line& line,
                                            float (&dz)[kKeptColumns]) const {
    if constexpr (kExponents) {
      const uint32_t words[] = {line.exponents.x, line.exponents.y, line.exponents.z, line.exponents.w};
#pragma unroll
      for (int i = 0; i < kKeptColumns; i += 2) {
        const float2 pair = KeptGradients(gradient, words[i / 2], line.offset);
        dz[i] = pair.x;
        dz[i + 1] = pair.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kKeptColumns; ++i) dz[i] = OtherGradient(gradient, line.z[i]);
    }
    if (static_cast<unsigned>(label - column) < kKeptColumns) {
#pragma unroll
      for (int i = 0; i < kKeptColumns; ++i) {
        if (column + i == label) dz[i] = gradient.label_gradient;
      }
    }
  }

  // Computes and stores columns [first, end), and zeros from the chunk's end up to a multiple of 8.
  // `threads` threads share the work; this is number `thread`. What forward did not keep counts as 0.
  template <bool kInPlanes, class Element>
  __device__ __forceinline__ void MakeFrom(int first, int end, Element* to, int thread,
                                           int threads) const {
    for (int column = first + thread * kKeptColumns; column < end; column += threads * kKeptColumns) {
      const bool whole = column + kKeptColumns <= columns;
      Line line = {};
      if (kept != nullptr && whole) {
        line = Load(column);
      } else if (kept != nullptr) {
        line = LoadSome(column);
      }
      float dz[kKeptColumns];
      Gradients(column, line, dz);
      if (!whole) {
#pragma unroll
        for (int i = 0; i < kKeptColumns; ++i) {
          if (column + i >= columns) dz[i] = 0;
        }
      }
      StoreKept<kInPlanes>(dz, to + column, chunk.plane_stride);
    }
  }
};

}  // namespace plumbline::kernel::cuda
