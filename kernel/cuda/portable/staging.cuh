// SPDX-License-Identifier: Apache-2.0
//
// Copies a tile of an operand from device memory to shared memory, in the layout that ldmatrix reads.
//
// A tile is kTile rows or columns of the product by kDepth of its depth. An operand is read in the
// order in which it lies, so there are two kinds, by what is contiguous: the depth ([kTile][kDepth] in
// shared memory) or the product's own dimension ([kDepth][kTile], read with .trans). Both are written
// in 16-byte chunks whose places in a row are swizzled, so that the eight rows of a matrix lie in eight
// different groups of banks.

#pragma once

#include <cstdint>

#include "kernel/cuda/portable/mma.cuh"
#include "kernel/cuda/product/product.h"

namespace plumbline::kernel::cuda::portable {

inline constexpr int kTile = 128;
inline constexpr int kDepth = 32;
inline constexpr int kThreads = 128;
inline constexpr int kChunk = 8;  // elements of 16 bytes
inline constexpr int kTileBytes = kTile * kDepth * 2;

// Returns the byte offset of a chunk in a tile. Where the depth is contiguous, `row` is of the tile and
// the chunk of the depth; else `row` is of the depth and the chunk of the tile.
template <bool kTransposed>
__device__ inline uint32_t ChunkOffset(int row, int chunk) {
  if constexpr (kTransposed) {
    return static_cast<uint32_t>(row * kTile * 2 + ((chunk ^ (row & 7)) * 16));
  } else {
    return static_cast<uint32_t>(row * kDepth * 2 + ((chunk ^ (row >> 1 & 3)) * 16));
  }
}

// The part of an operand that one product may read, in rows and columns as they lie in memory.
struct Source {
  const uint16_t* data;
  int64_t ld;
  int64_t rows, columns;
};

// Starts the copies of one tile. `own` is its first element in the product's dimension, `depth` in the
// depth. Elements outside of the source are 0.
template <bool kTransposed>
__device__ inline void StageTile(uint32_t to, const Source& source, int64_t own, int64_t depth) {
  constexpr int kChunksARow = (kTransposed ? kTile : kDepth) / kChunk;
  constexpr int kChunks = kTile * kDepth / kChunk;
  const int64_t first_row = kTransposed ? depth : own, first_column = kTransposed ? own : depth;
#pragma unroll
  for (int i = 0; i < kChunks / kThreads; ++i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x);
    const int r = index / kChunksARow, chunk = index % kChunksARow;
    const int64_t row = first_row + r, column = first_column + chunk * kChunk;
    const int64_t left = row < source.rows ? source.columns - column : 0;
    const int bytes = left >= kChunk ? 16 : left > 0 ? static_cast<int>(left) * 2 : 0;
    const uint16_t* from = bytes > 0 ? source.data + row * source.ld + column : source.data;
    CopyAsync(to + ChunkOffset<kTransposed>(r, chunk), from, bytes);
  }
}

// Loads the fragment of A for 16 rows from `row` on and 16 of the depth from `depth` on.
template <bool kTransposed>
__device__ inline void LoadA(uint32_t (&a)[4], uint32_t tile, int row, int depth) {
  const int lane = static_cast<int>(threadIdx.x % 32), matrix = lane / 8, r = lane % 8;
  // The matrices are rows 0-7 and 8-15 of the first 8 of the depth, then the same of the next 8.
  const int own = row + matrix % 2 * 8, deep = depth + matrix / 2 * 8;
  const uint32_t offset = kTransposed ? ChunkOffset<true>(deep + r, own / kChunk)
                                      : ChunkOffset<false>(own + r, deep / kChunk);
  LoadMatrices<kTransposed>(a, tile + offset);
}

// Loads the fragments of B for 16 columns from `column` on: b[0], b[1] of the first 8, b[2], b[3] of
// the next.
template <bool kTransposed>
__device__ inline void LoadB(uint32_t (&b)[4], uint32_t tile, int column, int depth) {
  const int lane = static_cast<int>(threadIdx.x % 32), matrix = lane / 8, r = lane % 8;
  const int own = column + matrix / 2 * 8, deep = depth + matrix % 2 * 8;
  const uint32_t offset = kTransposed ? ChunkOffset<true>(deep + r, own / kChunk)
                                      : ChunkOffset<false>(own + r, deep / kChunk);
  LoadMatrices<kTransposed>(b, tile + offset);
}

}  // namespace plumbline::kernel::cuda::portable
