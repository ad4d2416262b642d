// SPDX-License-Identifier: Apache-2.0
//
// Computes d_logits of a row and a chunk from logits that forward kept. They are what DLogitsEpilogue
// makes of a product's accumulators, by the same function, element by element.

#pragma once

#include <cstdint>

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

__device__ __forceinline__ void LoadKept(const float* from, float (&z)[kKeptColumns]) {
#pragma unroll
  for (int i = 0; i < kKeptColumns; i += 4) {
    const float4 four = __ldcs(reinterpret_cast<const float4*>(from + i));
    z[i] = four.x;
    z[i + 1] = four.y;
    z[i + 2] = four.z;
    z[i + 3] = four.w;
  }
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
    *reinterpret_cast<uint4*>(to) = {PackPair<Element>(dz[0], dz[1]), PackPair<Element>(dz[2], dz[3]),
                                     PackPair<Element>(dz[4], dz[5]), PackPair<Element>(dz[6], dz[7])};
  }
}

// Row r of the list, or a row of zeros behind it.
struct KeptRow {
  RowGradient gradient;
  const float* logits = nullptr;  // null: forward kept none for this row
  int columns;                    // of the chunk; 0 in a row of zeros
  int label;                      // in the chunk, -1: not there

  __device__ __forceinline__ KeptRow(const KeptChunk& chunk, int64_t r) {
    const bool alive = r < *chunk.live;
    gradient = alive ? chunk.rows[r] : RowGradient{.label = -1};
    columns = alive ? chunk.columns : 0;
    const int64_t place = alive ? chunk.slot[chunk.source[r]] : -1;
    if (place >= 0) logits = chunk.logits + place * chunk.logits_ld;
    const int64_t at = gradient.label - chunk.first_column;
    label = gradient.label >= 0 && at >= 0 && at < columns ? static_cast<int>(at) : -1;
  }

  // Replaces logits by d_logits, for columns of the chunk from `column` on.
  template <int n>
  __device__ __forceinline__ void Gradients(int column, float (&z)[n]) const {
#pragma unroll
    for (int i = 0; i < n; ++i) z[i] = OtherGradient(gradient, z[i]);
    if (static_cast<unsigned>(label - column) < n) {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        if (column + i == label) z[i] = gradient.label_gradient;
      }
    }
  }

  // Computes and stores the columns from `first` on, and zeros up to a multiple of 8. `threads` threads
  // share the work; this is number `thread`. A logit that forward did not keep counts as 0.
  template <bool kInPlanes, class Element>
  __device__ __forceinline__ void MakeFrom(int first, const KeptChunk& chunk, Element* to, int thread,
                                           int threads) const {
    for (int column = first + thread * kKeptColumns; column < chunk.columns;
         column += threads * kKeptColumns) {
      const bool whole = column + kKeptColumns <= columns;
      float z[kKeptColumns] = {};
      if (logits != nullptr && whole) {
        LoadKept(logits + column, z);
      } else if (logits != nullptr) {
#pragma unroll
        for (int i = 0; i < kKeptColumns; ++i) {
          if (column + i < columns) z[i] = logits[column + i];
        }
      }
      Gradients(column, z);
      if (!whole) {
#pragma unroll
        for (int i = 0; i < kKeptColumns; ++i) {
          if (column + i >= columns) z[i] = 0;
        }
      }
      StoreKept<kInPlanes>(z, to + column, chunk.plane_stride);
    }
  }
};

}  // namespace plumbline::kernel::cuda
