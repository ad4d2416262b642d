// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/saved_state.h"

#include <algorithm>
#include <iterator>

#include "kernel/cuda/layout/row_blocks.h"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {

Kept SavedLayout::KeptAt(std::byte* saved) const {
  Kept result = {.first_column = first_column, .ld = ld, .columns = ld - ahead};
  if (!KeepsLogits()) return result;
  result.slot = reinterpret_cast<int32_t*>(saved + slot);
  if (exponents) {
    result.exponents = reinterpret_cast<uint16_t*>(saved + kept) + ahead;
    if (ahead > 0) result.d_logits = saved + kept;
    result.offsets.data = reinterpret_cast<float*>(saved + offsets);
    result.offsets.ld = offsets_ld;
  } else {
    result.logits = reinterpret_cast<float*>(saved + kept);
  }
  return result;
}

SavedState SavedLayout::StateAt(std::byte* saved, const SavedHeader& of_problem) const {
  SavedState state = {.expected = of_problem};
  state.expected.exponents = exponents ? 1 : 0;
  state.expected.first_column = first_column;
  state.expected.ld = ld;
  if (bytes == 0) return state;
  state.header = reinterpret_cast<SavedHeader*>(saved);
  state.rows = reinterpret_cast<SavedRow*>(saved + sizeof(SavedHeader));
  return state;
}

std::optional<SavedLayout> MakeSavedLayout(const Layout& layout) {
  SavedLayout state;
  const int64_t columns = layout.v - layout.first_kept;
  state.exponents = layout.exponents;
  state.first_column = layout.first_kept;
  state.ahead = layout.backward.ahead;
  state.bytes = layout.saved_bytes;
  if (columns > 0) state.ld = RoundUp(columns, KeptGroup(layout.exponents)) + state.ahead;
  if (!state.KeepsLogits()) return state;
  RegionAllocator allocator;
  allocator.Take(static_cast<int64_t>(layout.saved_bytes), 1);
  state.slot = allocator.Take(layout.n, sizeof(int32_t));
  if (layout.exponents) {
    // Enough for the tiles of every path: the first may begin before the first column.
    state.offsets_ld = CeilDiv(columns, *std::ranges::min_element(kPartialColumns)) + 1;
    state.offsets = allocator.Take(HeldProduct(layout.n, state.offsets_ld), sizeof(float));
  }
  const int64_t rows = state.ahead > 0 ? InPlaceRows(layout.n) : layout.n;
  state.kept =
      allocator.Take(HeldProduct(rows, state.ld), static_cast<size_t>(KeptBytes(layout.exponents)));
  state.bytes = allocator.bytes();
  if (state.bytes > kMostBytes) return std::nullopt;
  return state;
}

std::optional<AtOnceLayout> MakeAtOnceLayout(const Problem& problem, const Results& results,
                                             const Keeping& keeping, int64_t rows, int clusters) {
  Keeping of_a_block = keeping;
  of_a_block.blocks = rows < problem.rows();
  const auto of_rows = [&](int64_t count) -> std::optional<RowBlockLayout> {
    const std::optional<Layout> passes =
        MakeLayout(RowsOf(problem, 0, count), RowsOf(results, 0, count), of_a_block, clusters);
    if (!passes) return std::nullopt;
    const std::optional<SavedLayout> state = MakeSavedLayout(*passes);
    if (!state) return std::nullopt;
    return RowBlockLayout{*passes, *state};
  };
  const int64_t all = problem.rows(), rest = rows > 0 ? all % rows : 0;
  const std::optional<RowBlockLayout> block = of_rows(rows), last = rest > 0 ? of_rows(rest) : block;
  // Without gradients there are no blocks, and the memory of a call that asks for more has to do.
  const std::optional<Layout> forward = MakeLayout(problem, {}, keeping, clusters);
  if (!block || !last || !forward) return std::nullopt;
  AtOnceLayout regions = {.rows = rows, .block = *block, .last = *last};
  const auto largest = [](size_t a, size_t b) { return static_cast<int64_t>(std::max(a, b)); };
  RegionAllocator allocator;
  if (block->passes.has_backward) {
    regions.saved = allocator.Take(largest(block->state.bytes, last->state.bytes), 1);
    for (size_t* region : {&regions.logprob, &regions.entropy, &regions.lse, &regions.grad_logprob,
                           &regions.grad_entropy})
      *region = allocator.Take(rows, sizeof(float));
  }
  if (rows < all && results.loss) regions.row_logprob = allocator.Take(all, sizeof(float));
  if (rows < all && results.grad_weight) {
    regions.weight_sums =
        allocator.Take(HeldProduct(problem.vocab(), block->passes.packed_ld), sizeof(float));
  }
  const size_t passes =
      std::max({block->passes.workspace_bytes, last->passes.workspace_bytes, forward->workspace_bytes});
  regions.passes = allocator.Take(static_cast<int64_t>(passes), 1);
  regions.bytes = allocator.bytes();
  if (regions.bytes > kMostBytes) return std::nullopt;
  return regions;
}

}  // namespace plumbline::kernel::cuda
