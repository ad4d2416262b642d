// SPDX-License-Identifier: Apache-2.0
//
// How a problem is cut into pieces, and where each piece of the workspace lies. Host arithmetic on
// shapes and dtypes, for every width of tiles that a path may have; nothing is asked of a device.
//
// Forward takes blocks of rows, so that partial sums and moved rows stay bounded; backward takes chunks
// of the vocabulary, so that d_logits do. Neither changes a bit of a 16-bit problem: tiles are summed
// by FinishRows in the order of the vocabulary, and grad_hidden's chain goes on from chunk to chunk. An
// fp32 problem's six passes go over a chunk at a time, so there the chunk is a constant.

#ifndef PLUMBLINE_KERNEL_CUDA_LAYOUT_WORKSPACE_H_
#define PLUMBLINE_KERNEL_CUDA_LAYOUT_WORKSPACE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "kernel/problem.h"

namespace plumbline::kernel::cuda {

// Columns of the vocabulary that one partial sum of a row is over: what paths may have.
inline constexpr int kPartialColumns[] = {128, 192};
constexpr bool HasLayout(int columns) {
  for (const int known : kPartialColumns) {
    if (columns == known) return true;
  }
  return false;
}

// Of a path whose partial sums are over `columns` each.
struct ForwardLayout {
  int columns = 0;           // one of kPartialColumns
  int64_t partials = 0;      // of a row
  int64_t row_block = 0;     // rows at a time, a multiple of 256
  int64_t weight_chunk = 0;  // columns of a packed weight
  // Offsets.
  size_t census = 0, source = 0, label = 0, scale = 0, temperature = 0, label_logit = 0,
         row_logprob = 0, partial_max = 0, partial_sum = 0, partial_moment = 0, packed_hidden = 0,
         packed_weight = 0;
  size_t bytes = 0;
};

// Chunks of kept columns: no product waits for their d_logits. Where there is room for two, the next
// one's are made beside the gradients' products of the one before (Product::kept). The first may then
// be shorter, because nothing is there to make it beside; each is up to twice as long as the one
// before.
struct KeptChunks {
  int64_t first = 0, most = 0;  // columns, multiples of every tile's
  bool two = false;

  // Of the chunk that `before` kept columns come before.
  int64_t Columns(int64_t before) const {
    int64_t columns = first;
    for (; before > 0; before -= std::exchange(columns, std::min(2 * columns, most))) {
    }
    return columns;
  }
};

struct BackwardLayout {
  // Columns of d_logits, a multiple of every tile's: where products read weight as it lies, and where
  // each chunk of it is packed first, into what the shorter d_logits leave.
  int64_t direct_chunk = 0, packed_chunk = 0;
  KeptChunks kept;          // of d_logits made of kept logits, where weight is read as it lies
  int64_t padded_rows = 0;  // n up to a multiple of 256
  // Offsets.
  size_t census = 0, source = 0, slot = 0, rows = 0, sums = 0, packed_hidden = 0, d_logits = 0,
         other_kept = 0, packed_weight = 0;
  size_t bytes = 0;
};

struct Layout {
  int64_t n = 0, h = 0, v = 0;
  int planes = 1, passes = 1;
  bool has_backward = false;  // some gradient is asked for
  int64_t first_kept = 0;     // column of the vocabulary from which on logits are kept; v: none are
  int64_t packed_ld = 0;      // elements of a packed row of hidden or weight, and of a row of sums
  ForwardLayout forward[std::size(kPartialColumns)];
  BackwardLayout backward;
  size_t workspace_bytes = 0, saved_bytes = 0;  // enough for any path

  const ForwardLayout& ForwardOf(int columns) const;
};

// Columns of kept logits that are stored together: a line of 128 bytes.
inline constexpr int kKeptGroup = 32;

// Logits are kept in kept_logits_bytes at most. nullopt where workspace_bytes would pass 2^62.
std::optional<Layout> MakeLayout(const Problem& problem, const Results& results,
                                 size_t kept_logits_bytes = 0);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_LAYOUT_WORKSPACE_H_
