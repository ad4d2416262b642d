// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the pieces into which the host implementation divides a problem. There are two kinds of
// constants, and they must not be confused:
//
//   * those that shape sums (kTile, kLanes, kMaxSplits). They depend on V alone, so the bits of a row
//     depend neither on the batch it is in nor on the machine. They are part of the published contract:
//     changing one changes results.
//   * those that only shape work (kPanel, kRowBlock, kDepthBlock, kChunkColumns, kColumnGroup). Every
//     dot product is one chain in ascending order whatever they are, so they change no bit.

#pragma once

#include <algorithm>
#include <cstdint>

namespace plumbline::kernel::host {

inline constexpr int64_t kTile = 64;      // columns that share one step of the running maximum
inline constexpr int64_t kLanes = 16;     // partial sums within a tile: the virtual vector
inline constexpr int64_t kMaxSplits = 8;  // runs of tiles with a state of their own, merged in order

inline constexpr int64_t kPanel = 16;        // columns of a packed panel: one cache line a depth step
inline constexpr int64_t kRowBlock = 96;     // rows a work item; a multiple of the micro-kernel's 6
inline constexpr int64_t kDepthBlock = 256;  // packed at a time: 256 x 64 floats are 64 KiB, in L2
inline constexpr int64_t kChunkColumns = 1024;  // columns of d_logits held at a time in backward
inline constexpr int64_t kColumnGroup = 512;    // columns of grad_weight a work item

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// Divides the vocabulary into tiles, and the tiles into splits.
struct VocabTiling {
  explicit constexpr VocabTiling(int64_t vocab_size)
      : vocab(vocab_size),
        tiles(CeilDiv(vocab_size, kTile)),
        tiles_per_split(std::max<int64_t>(1, CeilDiv(tiles, kMaxSplits))),
        splits(CeilDiv(tiles, tiles_per_split)) {}

  constexpr int64_t FirstTile(int64_t split) const { return split * tiles_per_split; }
  constexpr int64_t EndTile(int64_t split) const {
    return std::min(tiles, (split + 1) * tiles_per_split);
  }
  // Returns the columns of a tile, fewer than kTile in the last one of a ragged vocabulary.
  constexpr int64_t Width(int64_t tile) const { return std::min(kTile, vocab - tile * kTile); }

  int64_t vocab;
  int64_t tiles;
  int64_t tiles_per_split;
  int64_t splits;
};

}  // namespace plumbline::kernel::host
