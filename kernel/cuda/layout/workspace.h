// SPDX-License-Identifier: Apache-2.0
//
// Divides a problem into pieces and lays out the workspace. This is host arithmetic on shapes and
// dtypes, for every tile width that a path may have; no device is asked. Sizes are those of an H200's
// chunks on every device.
//
// Forward takes blocks of rows, so that partial sums and packed rows stay bounded; backward takes
// chunks of the vocabulary, so that d_logits do. Neither changes a bit of a 16-bit problem: FinishRows
// adds tiles in the order of the vocabulary, and the chain of a stretch of grad_hidden
// (kernel/stretches.h) goes on from chunk to chunk. The six passes of an fp32 problem go over one chunk
// at a time, so its chunk depends on the vocabulary alone.
//
// A chunk is a number of whole stretches, or a piece of one where memory has room for no more. Only the
// latter, and logits that are kept from within a stretch on, need memory for the sums of a stretch that
// has not ended.
//
// The region `census` holds a Census (stages/list_rows.h): counts of the list, and the counters of
// tiles that have begun. The first launch of each pass writes all of it, so a captured call can be
// replayed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "kernel/cuda/layout/cost_model.h"
#include "kernel/cuda/support/regions.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"

namespace plumbline::kernel::cuda {

// Columns of the vocabulary in one partial sum of a row: the values that paths may have.
inline constexpr int kPartialColumns[] = {128, 192};
constexpr bool HasLayout(int columns) {
  for (const int known : kPartialColumns) {
    if (columns == known) return true;
  }
  return false;
}

// Layout of forward for a path whose partial sums are over `columns` each.
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

// Returns the end of the chunk that begins at column `first`, of at most `columns`: a multiple of
// `stretch`, or fewer, which then do not go past the end of a stretch.
constexpr int64_t EndOfChunk(int64_t first, int64_t columns, int64_t stretch) {
  const int64_t begin = first / stretch * stretch;
  return columns >= stretch ? begin + columns : std::min(first + columns, begin + stretch);
}

// Returns the rows that d_logits in place have: as many as grad_weight's depth is computed in.
constexpr int64_t InPlaceRows(int64_t n) { return RoundUp(n, 64); }

struct BackwardLayout {
  // Columns of d_logits, a multiple of every tile's width: direct_chunk where products read weight as
  // it lies, packed_chunk where each chunk of weight is packed first. The packed weight takes the
  // memory that the shorter d_logits leave.
  int64_t direct_chunk = 0, packed_chunk = 0;
  // Chunks of d_logits made of kept logits, where weight is read as it lies. In place they are those of
  // grad_weight, however weight lies.
  KeptChunks kept;
  // Above 0, a multiple of 64: backward may write over kept exponents. d_logits of a kept column lie in
  // place, so many elements before its exponent. A chunk has at most so many columns, so d_logits of
  // one are written over exponents of columns before it, which have been read. grad_weight is then
  // computed chunk by chunk but for its end, then grad_hidden of all kept columns, and that end.
  int64_t ahead = 0;
  int64_t end_columns = 0;  // in place: the last ones, whose grad_weight is one product (BestEnd)
  // The totals of grad_hidden have no memory of their own. They lie in the last `ahead` elements of
  // each row of kept exponents, behind its d_logits: these have been read when grad_hidden begins.
  bool totals_behind = false;
  int64_t padded_rows = 0;  // n up to a multiple of 256
  int64_t at_once = 1;      // stretches that are computed together where a path does so
  // Both gradients may be computed by one sweep over weight: grad_hidden is asked for, rows are few and
  // no block of several, d_logits are not in place, and no stretches are in turn.
  bool sweeps = false;
  // Offsets.
  size_t census = 0, source = 0, slot = 0, kept_slot = 0, rows = 0, totals = 0, sums = 0, apart = 0,
         packed_hidden = 0, d_logits = 0, other_kept = 0, packed_weight = 0;
  bool has_sums = false;     // memory for those of a stretch that has not ended
  bool direct_sums = false;  // … also where weight is read as it lies
  size_t bytes = 0;
};

struct Layout {
  int64_t n = 0, h = 0, v = 0;
  int planes = 1, passes = 1;
  bool has_backward = false;  // some gradient is asked for
  int64_t stretch = 0;        // columns of a stretch of grad_hidden
  bool exponents = false;     // backward's exponents go through fp16, and are what is kept
  int64_t first_kept = 0;     // column of the vocabulary from which on logits are kept; v: none are
  int64_t packed_ld = 0;      // elements of a packed row of hidden or weight, and of a row of sums
  ForwardLayout forward[std::size(kPartialColumns)];
  BackwardLayout backward;
  size_t workspace_bytes = 0, saved_bytes = 0;  // enough for any path

  const ForwardLayout& ForwardOf(int columns) const;
};

// Columns that are kept together, a line of 128 bytes: logits in fp32, exponents in fp16.
inline constexpr int kLogitGroup = 32, kExponentGroup = 64;
constexpr int KeptGroup(bool exponents) { return exponents ? kExponentGroup : kLogitGroup; }
constexpr int64_t KeptBytes(bool exponents) { return exponents ? 2 : 4; }

// Returns whether backward's exponents go through fp16, and are what is kept.
constexpr bool KeptAsExponents(DType dtype, KeptForm form) {
  return dtype == DType::kBf16 && form == KeptForm::kDefault;
}

// The bytes that sums of stretches may take which are computed together.
inline constexpr int64_t kStretchesBytes = int64_t{128} << 20;

// Returns the elements of d_logits of the longest chunk in place, unless that is less than kTileStep
// columns: those of 12672 columns of 8192 rows where H is at most 2048. Where H is more: of 12672, or
// from H = 4096 on of 9504, where the memory serves the totals of grad_hidden, too, else of 3168 at
// 8192 x 4096, 50 MiB (bench/NOTES.md, 38 and 42).
constexpr int64_t InPlaceElements(int64_t h, bool totals_behind) {
  constexpr int64_t kRows = 8192;
  if (h <= 2048 || (totals_behind && h < 4096)) return kRows * 12672;
  return totals_behind ? kRows * 9504 : kRows * 4096 * 3168 / h;
}

// What is kept of logits, and whether backward may write over it.
struct Keeping {
  size_t bytes = 0;  // of kept columns at most; offsets, `ahead` and InPlaceRows beside
  KeptForm form = KeptForm::kDefault;
  bool consumed = false;
  bool blocks = false;  // of rows, several: grad_weight goes on through sums, and there is no sweep
  // Above 0: chunks have at most so many columns, and are divided as those of large problems
  // (kernel/cuda/operator.h). For tests.
  int64_t chunk_columns = 0;

  bool operator==(const Keeping&) const = default;
};

// Makes the layout. nullopt where workspace_bytes would pass 2^62. `clusters` is how many clusters of
// two blocks the device runs at the same time; it decides the chunks of backward alone, and no size or
// offset outside of d_logits. A layout is made once: each thread remembers its last eight.
std::optional<Layout> MakeLayout(const Problem& problem, const Results& results,
                                 const Keeping& keeping = {}, int clusters = kH200Costs.clusters);

}  // namespace plumbline::kernel::cuda
