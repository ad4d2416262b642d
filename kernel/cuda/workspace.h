// SPDX-License-Identifier: Apache-2.0
//
// How a problem is cut into pieces, and where each piece of the workspace lies. Host arithmetic on
// shapes and dtypes, and on the width of a path's tiles; nothing is asked of a device.
//
// Forward takes blocks of rows, so that partial sums and moved rows stay bounded; backward takes chunks
// of the vocabulary, so that d_logits do. Neither changes a bit of a 16-bit problem: tiles are summed
// by FinishRows in the order of the vocabulary, and grad_hidden's chain goes on from chunk to chunk. An
// fp32 problem's six passes go over a chunk at a time, so there the chunk is a constant.

#ifndef PLUMBLINE_KERNEL_CUDA_WORKSPACE_H_
#define PLUMBLINE_KERNEL_CUDA_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/problem.h"

namespace plumbline::kernel::cuda {

inline constexpr int64_t kTileColumns[] = {128, 192};  // of a partial sum: what paths may have

struct Regions {
  // Both passes.
  size_t census = 0, source = 0, packed_hidden = 0, packed_weight = 0;
  // Forward.
  size_t label = 0, scale = 0, temperature = 0, label_logit = 0, row_logprob = 0;
  size_t partial_max = 0, partial_sum = 0, partial_moment = 0;
  // Backward.
  size_t slot = 0, rows = 0, sums = 0, d_logits = 0;
  size_t bytes = 0;
};

struct Layout {
  int64_t n = 0, h = 0, v = 0;
  int planes = 1, passes = 1;
  bool backward = false;      // some gradient is asked for
  int64_t packed_ld = 0;      // elements of a packed row of hidden or weight
  int64_t row_block = 0;      // forward: rows a block, a multiple of 256
  int64_t forward_chunk = 0;  // forward: columns of a packed weight
  // Columns of d_logits, a multiple of every tile's: where products read weight as it lies, and where
  // each chunk of it is packed first, into what the shorter d_logits leave.
  int64_t direct_chunk = 0, packed_chunk = 0;
  int64_t padded_rows = 0;  // n up to a multiple of 256
  int64_t sums_ld = 0;
  Regions forward_regions, backward_regions;
  size_t workspace_bytes = 0, saved_bytes = 0;
};

// Of a path whose partial sums are over tile_columns, one of kTileColumns. workspace_bytes is enough
// for any path; nullopt where it would pass 2^62.
std::optional<Layout> MakeLayout(const Problem& problem, const Results& results, int64_t tile_columns);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_WORKSPACE_H_
