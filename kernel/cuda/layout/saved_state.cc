// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/saved_state.h"

#include <algorithm>
#include <iterator>

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

std::optional<AtOnceLayout> MakeAtOnceLayout(const Layout& layout) {
  const std::optional<SavedLayout> state = MakeSavedLayout(layout);
  if (!state) return std::nullopt;
  AtOnceLayout regions = {.state = *state};
  RegionAllocator allocator;
  if (layout.has_backward) {
    regions.saved = allocator.Take(static_cast<int64_t>(state->bytes), 1);
    for (size_t* region : {&regions.logprob, &regions.entropy, &regions.lse, &regions.grad_logprob,
                           &regions.grad_entropy})
      *region = allocator.Take(layout.n, sizeof(float));
  }
  regions.passes = allocator.Take(static_cast<int64_t>(layout.workspace_bytes), 1);
  regions.bytes = allocator.bytes();
  if (regions.bytes > kMostBytes) return std::nullopt;
  return regions;
}

}  // namespace plumbline::kernel::cuda
