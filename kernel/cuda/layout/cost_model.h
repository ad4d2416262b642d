// SPDX-License-Identifier: Apache-2.0
//
// Estimates the time of backward on a device, and chooses the chunks of the vocabulary that take least.
// An estimate changes speed alone, never a bit.

#pragma once

#include <algorithm>
#include <cstdint>

namespace plumbline::kernel::cuda {

// Cycles are those of a multiprocessor. A tile is 128 x 192 of d_logits or 192 x 128 of a gradient.
struct DeviceCosts {
  int clusters;                        // of two blocks, a tile each, that run at the same time
  double tile_cycles_per_depth_block;  // 64 of the depth
  double launch_cycles_per_chunk;
  double launch_cycles_in_place;  // of a launch where chunks are in place, its first and last tile
                                  // included
  // d_logits from kept logits: on the warps that the gradients' products leave idle, of all
  // multiprocessors; and in a launch of their own, which is bound by memory.
  double idle_warps_cycles_per_element;
  double memory_cycles_per_element;
  // Bytes that all multiprocessors read or write in a cycle.
  double memory_bytes_per_cycle;
};

// An H200 of 132 multiprocessors. Its idle warps took 6 ms for 8192 x 151936, measured; its memory
// moves the 6 bytes of an element at 4.2 TB/s. A launch in place took 14 us on an H100 (bench/NOTES.md,
// 37).
inline constexpr DeviceCosts kH200Costs = {.clusters = 66,
                                           .tile_cycles_per_depth_block = 768,
                                           .launch_cycles_per_chunk = 12000,
                                           .launch_cycles_in_place = 24000,
                                           .idle_warps_cycles_per_element = 0.0065,
                                           .memory_cycles_per_element = 0.0019,
                                           .memory_bytes_per_cycle = 2000};

inline constexpr int64_t kColumnStep = 384;  // a multiple of the tiles 128 and 192
inline constexpr int64_t kTileStep = 192;    // of grad_weight's tiles of Hopper's path
inline constexpr int64_t kKeptStep = 768;    // of pieces: also of the 256 logits that idle warps copy

// Chunks of kept columns, whose d_logits need no product. Where there is memory for d_logits of two
// chunks, those of the next one are computed while the gradients' products of the current one run
// (Product::kept). Nothing runs beside the first chunk's d_logits.
struct KeptChunks {
  int64_t most = 0;  // columns, a multiple of every tile's
  bool two = false;  // the next chunk's d_logits are computed so
};

// Returns how many products of grad_hidden's stretches to compute together, at most `most`, with sums
// apart, or 1: in turn. The gradients are of `columns` columns. Together they occupy clusters that
// tiles alone leave idle; but their sums are written, and read again to be added. It is chosen where it
// saves a thirty-third.
int64_t StretchesAtOnce(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                        int64_t stretch, int64_t most);

// Returns the chunk of at most `most` columns by which backward of n rows, a hidden size of h and v
// columns costs least: whole stretches, or, where most is less, an equal piece of one, a multiple of
// kColumnStep. n and h are positive.
int64_t BestChunk(const DeviceCosts& costs, int64_t n, int64_t h, int64_t v, int64_t stretch,
                  int64_t most);

// Returns the chunks that cost least where only the gradient of weight is computed chunk by chunk, with
// d_logits in place (BackwardLayout::ahead): multiples of kTileStep, at most `most` columns unless that
// is less than one of them. `two` says that d_logits of the next chunk are computed beside the product,
// for which d_logits in place need no second buffer.
KeptChunks BestInPlaceChunks(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                             int64_t most);

// Returns how many of `columns` columns, the last ones, have one product of grad_weight behind
// grad_hidden, with d_logits in place: the last chunk, and up to seven before it, whole ones, with
// which that product fills best the clusters that grad_hidden's last round of tiles leaves idle, if
// both gradients are asked for. d_logits of a chunk behind the first of these have a launch of their
// own. One chunk where H is above 2048: there several took as long at the power limit, and longer in
// single calls after rest (bench/NOTES.md, 45). columns is positive.
int64_t BestEnd(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                const KeptChunks& chunks);

// Returns the chunks of `columns` kept columns that cost least, likewise, with one buffer for d_logits
// of at most `single` columns or two for at most `each`.
KeptChunks BestKeptChunks(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                          int64_t stretch, int64_t single, int64_t each);

}  // namespace plumbline::kernel::cuda
