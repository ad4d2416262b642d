// SPDX-License-Identifier: Apache-2.0
//
// The state that forward leaves for backward: a header, a row's numbers and, where the caller has
// memory for them, the logits of the last columns of the vocabulary, as many as a limit allows, so that
// backward need not compute them again. Gradients in forward keep it in the workspace, with the rows'
// results as the function of upstream gradients sees them.
//
// Logits are fp32, from forward's accumulators. Backward's product would give the same bits, because
// its chains are the same. They lie in [place][ld], where a place is the index of a row on forward's
// list. In problems of bf16 the exponents of a softmax over the column's tile alone are kept in their
// place, in fp16, and for each tile its offset, the exponent of its maximum in the row's softmax. A
// tile is that of forward's partial sums; first_column may lie inside of one.
//
// Where backward may write over exponents (BackwardLayout::ahead), a row begins with memory for `ahead`
// d_logits, and there are InPlaceRows() rows. Its last `ahead` elements may serve the totals of
// grad_hidden in the end (BackwardLayout::totals_behind).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/product/kept_chunk.h"
#include "kernel/problem.h"
#include "kernel/saved_header.h"

namespace plumbline::kernel::cuda {

struct SavedRow;

// Where a pass finds header and rows, and which header its arguments make. Only a forward pass writes.
struct SavedState {
  SavedHeader expected;
  SavedHeader* header = nullptr;  // device; null: there is no state
  SavedRow* rows = nullptr;       // device
};

// Device pointers to what is kept of logits, as one pass uses them.
struct Kept {
  int64_t first_column = 0;  // of the vocabulary; its size where nothing is kept
  int64_t ld = 0;            // elements from row to row, a multiple of KeptGroup()
  int64_t columns = 0;       // kept, up to a multiple of KeptGroup()
  // One of these two, if any column is kept: fp32, or fp16.
  float* logits = nullptr;
  uint16_t* exponents = nullptr;
  void* d_logits = nullptr;  // of bf16, in place: [backward's place][ld]; null: not in place
  TileOffsets offsets = {};  // of exponents; `first` follows from the path (OnPath, stages/path.h)
  int tile_columns = 0;      // of a tile, likewise
  int32_t* slot = nullptr;   // [rows] forward's place of a row of the problem, negative: none
  // [rows], dense; null where no function of upstream gradients is called.
  float *logprob = nullptr, *entropy = nullptr, *lse = nullptr;
};

// Offsets in the saved state, which begins with header and rows' numbers.
struct SavedLayout {
  bool exponents = false;
  int64_t first_column = 0, ld = 0, offsets_ld = 0, ahead = 0;
  size_t slot = 0, offsets = 0, kept = 0;  // where columns are kept
  size_t bytes = 0;

  bool KeepsLogits() const { return ld > 0; }
  // These return the pointers into the state at `saved`; only a forward pass writes through them.
  Kept KeptAt(std::byte* saved) const;
  SavedState StateAt(std::byte* saved, const SavedHeader& of_problem) const;
};

// Makes the layout; nullopt where the state would pass 2^62 bytes.
std::optional<SavedLayout> MakeSavedLayout(const Layout& layout);

// A block of rows of gradients in forward: its passes, and what they leave each other.
struct RowBlockLayout {
  Layout passes;
  SavedLayout state;
};

// How gradients in forward divide a problem, and offsets in their workspace. The two passes share one
// region, behind the others. One block follows another in the same memory.
struct AtOnceLayout {
  int64_t rows = 0;            // of every block but the last
  RowBlockLayout block, last;  // the same where there is one block
  size_t saved = 0, logprob = 0, entropy = 0, lse = 0, grad_logprob = 0, grad_entropy = 0, passes = 0;
  // Regions of several blocks: logprob of all rows where there is a loss, and sums of grad_weight.
  size_t row_logprob = 0, weight_sums = 0;
  size_t bytes = 0;  // of all, the passes' included
};

// Makes the layout for blocks of `rows` rows (layout/row_blocks.h). nullopt where a size would pass
// 2^62 bytes. `clusters` is as in MakeLayout.
std::optional<AtOnceLayout> MakeAtOnceLayout(const Problem& problem, const Results& results,
                                             const Keeping& keeping, int64_t rows,
                                             int clusters = kH200Costs.clusters);

}  // namespace plumbline::kernel::cuda
