// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/workspace.h"

#include <algorithm>
#include <array>

#include "kernel/cuda/product/product.h"
#include "kernel/cuda/support/regions.h"
#include "kernel/saved_header.h"
#include "kernel/stretches.h"

namespace plumbline::kernel::cuda {
namespace {

// These limits make at most 87 MiB forward and 440 MiB backward for 8192 x 4096 x 151936 in bf16.
constexpr int64_t kForwardBytes = int64_t{72} << 20;        // partial sums and moved rows
constexpr int64_t kForwardWeightBytes = int64_t{16} << 20;  // a packed chunk of weight
constexpr int64_t kBackwardBytes = int64_t{248} << 20;      // d_logits, with a packed chunk of weight
// Where a sweep may compute both gradients, sums of stretches lie beside, and this is enough.
constexpr int64_t kFewRowsBytes = int64_t{120} << 20;
// With more rows the limit is three times a packed hidden, up to this: short chunks read and write the
// sums of grad_hidden more often.
constexpr int64_t kMostBackwardBytes = int64_t{1} << 30;
constexpr int64_t kPlaneColumns = 1536;  // a chunk of an fp32 problem at most, whatever its rows
constexpr int64_t kRowStep = 256;

// Chunks begin with a tile of any path, because kept exponents need the maxima of whole tiles.
static_assert(std::ranges::all_of(kPartialColumns, [](int columns) {
  return kColumnStep % columns == 0 && kStretchUnit % columns == 0;
}));

// Returns the size of as few pieces as `most` allows, equal up to `step`.
int64_t EvenPiece(int64_t whole, int64_t most, int64_t step) {
  most = std::max(most / step * step, step);
  const int64_t pieces = std::max<int64_t>(CeilDiv(whole, most), 1);
  return std::min(most, std::max(RoundUp(CeilDiv(whole, pieces), step), step));
}

constexpr size_t kCensusBytes = 64, kRowGradientBytes = 32, kSavedRowBytes = 16;

ForwardLayout MakeForward(const Layout& layout, int64_t row_bytes, int columns) {
  ForwardLayout f;
  f.columns = columns;
  f.partials = CeilDiv(layout.v, columns);
  f.row_block =
      EvenPiece(layout.n, kForwardBytes / std::max<int64_t>(12 * f.partials + row_bytes, 1), kRowStep);
  f.weight_chunk =
      EvenPiece(layout.v, kForwardWeightBytes / std::max<int64_t>(row_bytes, 1), kColumnStep);
  RegionAllocator allocator;
  f.census = allocator.Take(1, kCensusBytes);
  f.source = allocator.Take(layout.n, 4);
  f.label = allocator.Take(layout.n, 8);
  f.scale = allocator.Take(layout.n, 4);
  f.temperature = allocator.Take(layout.n, 4);
  f.label_logit = allocator.Take(layout.n, 4);
  f.row_logprob = allocator.Take(layout.n, 4);
  f.partial_max = allocator.Take(HeldProduct(f.partials, f.row_block), 4);
  f.partial_sum = allocator.Take(HeldProduct(f.partials, f.row_block), 4);
  f.partial_moment = allocator.Take(HeldProduct(f.partials, f.row_block), 4);
  f.packed_hidden = allocator.Take(HeldProduct(f.row_block, row_bytes), 1);
  f.packed_weight = allocator.Take(HeldProduct(f.weight_chunk, row_bytes), 1);
  f.bytes = allocator.bytes();
  return f;
}

// Returns the chunk of an fp32 problem: a piece of a stretch, of which the last may be shorter.
int64_t PlaneChunk(const Layout& layout) {
  const int64_t all = std::max(RoundUp(layout.v, kColumnStep), kColumnStep);
  return std::min({kPlaneColumns, layout.stretch, all});
}

// Returns the first column from which on `limit` bytes hold all logits. Kept columns begin at a
// multiple of 64, those of fp32 problems where a chunk begins, so that the depth blocks of every chain
// lie as they would without kept logits.
int64_t FirstKept(const Layout& layout, size_t limit) {
  constexpr int64_t kDepthBlock = 64;  // the largest of any path
  static_assert(kDepthBlock % kLogitGroup == 0 && kDepthBlock % kExponentGroup == 0);
  if (layout.n == 0 || layout.v == 0) return layout.v;
  const int64_t elements =
      static_cast<int64_t>(std::min(limit, kMostBytes)) / KeptBytes(layout.exponents);
  const int group = KeptGroup(layout.exponents);
  const int64_t most = elements / layout.n / group * group;
  if (layout.v <= most) return 0;
  const int64_t left = layout.v - most;
  if (layout.planes == 1) return std::min(RoundUp(left, kDepthBlock), layout.v);
  const int64_t begin = left / layout.stretch * layout.stretch;
  const int64_t pieces = RoundUp(left - begin, PlaneChunk(layout));
  return std::min(begin + std::min(pieces, layout.stretch), layout.v);
}

// Returns the most columns of a chunk: a limit, or whole stretches that need at most a sixteenth more,
// a single one a quarter.
int64_t WithAStretch(const Layout& layout, int64_t most) {
  const int64_t whole = (most + most / 16) / layout.stretch * layout.stretch;
  return std::max({most, whole, layout.stretch <= most + most / 4 ? layout.stretch : 0});
}

// Returns the width of a row's totals of grad_hidden in elements of a row of exponents, of which two
// take the place of one total.
int64_t TotalsWidth(const Layout& layout) { return RoundUp(2 * layout.packed_ld, 64); }

// Divides the kept columns into chunks of grad_weight where d_logits are in place: short ones, because
// their d_logits take memory beside the exponents, unless that serves the totals of grad_hidden, too.
void DivideInPlace(const Layout& layout, bool totals_behind, int64_t chunk_columns, BackwardLayout* b) {
  const int64_t columns = layout.v - layout.first_kept;
  const int64_t elements = InPlaceElements(layout.packed_ld, totals_behind);
  const int64_t least = totals_behind ? TotalsWidth(layout) : 0;
  int64_t most = std::min(std::max(elements / std::max<int64_t>(layout.n, 1), least), columns / 8);
  if (chunk_columns > 0) most = std::min(most, chunk_columns);
  b->kept = BestInPlaceChunks(kH200Costs, layout.n, layout.h, columns, most);
  if (chunk_columns > 0) b->kept.two = true;
  b->end_columns = BestEnd(kH200Costs, layout.n, layout.h, columns, b->kept);
  // Small problems have both kinds of an end: two short chunks where their number is odd, else one.
  if (chunk_columns > 0) {
    const int64_t last = (columns - 1) % b->kept.most + 1, before = (columns - last) / b->kept.most;
    b->end_columns = before > 0 && before % 2 == 0 ? last + b->kept.most : last;
  }
  b->ahead = std::max(b->kept.most, least);
  b->totals_behind = totals_behind;
}

// Returns whether a sweep over weight may compute both gradients (product.h).
bool FewRows(const Layout& layout) {
  return layout.planes == 1 && layout.n > 0 && layout.n <= kSweepRows && layout.h > 0 &&
         layout.h % kSweepColumns == 0;
}

// Returns how many stretches may have sums apart.
int64_t MostApart(const Layout& layout) {
  return kStretchesBytes /
         std::max<int64_t>(HeldProduct(HeldProduct(layout.n, layout.packed_ld), 4), 1);
}

// Returns how many stretches of so many columns are computed together where no sweep computes them.
int64_t Together(const Layout& layout, int64_t columns) {
  return StretchesAtOnce(kH200Costs, layout.n, layout.h, columns, layout.stretch, MostApart(layout));
}

// Chooses how many stretches are computed together, in chunks of at most so many columns.
void ComputeTogether(const Layout& layout, int64_t columns, bool few, bool in_turn, BackwardLayout* b) {
  const int64_t stretches = std::max<int64_t>(CeilDiv(columns, layout.stretch), 1);
  b->at_once = few       ? std::clamp<int64_t>(MostApart(layout), 1, stretches)
               : in_turn ? 1
                         : Together(layout, columns);
  b->sweeps = few && (b->at_once > 1 || stretches == 1);
}

// Returns whether the totals of grad_hidden fit behind d_logits in place: every column is kept, and
// there are no other sums. It asks for no gradient, since the saved state may not depend on them.
bool TotalsFitBehind(const Layout& layout, int64_t packed_chunk, bool in_turn) {
  return layout.first_kept == 0 && packed_chunk >= std::min(layout.stretch, layout.v) &&
         TotalsWidth(layout) <= layout.v / 8 && (in_turn || Together(layout, layout.v) == 1);
}

BackwardLayout MakeBackward(const Layout& layout, int64_t row_bytes, bool sums,
                            const Keeping& keeping) {
  BackwardLayout b;
  const bool few = FewRows(layout) && !keeping.blocks;
  const bool shortened = keeping.chunk_columns > 0;
  b.padded_rows = RoundUp(layout.n, kRowStep);
  const int64_t most =
      few ? kFewRowsBytes
          : std::clamp(HeldProduct(3 * b.padded_rows, row_bytes), kBackwardBytes, kMostBackwardBytes);
  const auto chunk = [&](int64_t column_bytes) {
    if (layout.n == 0) return kColumnStep;
    if (layout.planes > 1) return PlaneChunk(layout);
    const int64_t fit = WithAStretch(layout, most / column_bytes);
    return BestChunk(kH200Costs, layout.n, layout.h, layout.v, layout.stretch,
                     shortened ? std::min(fit, keeping.chunk_columns) : fit);
  };
  b.direct_chunk = chunk(std::max<int64_t>(2 * b.padded_rows, 1));
  b.packed_chunk = chunk(std::max<int64_t>(HeldProduct(2, b.padded_rows) + row_bytes, 1));
  const int64_t columns = layout.v - layout.first_kept;
  const bool in_place = keeping.consumed && layout.exponents && columns > 0 && !few;
  const bool some_elsewhere = !in_place || layout.first_kept > 0;  // d_logits that are not in place
  // Where all are in place, a packed weight is multiplied by a stretch at a time, and has the memory
  // for itself.
  if (!some_elsewhere) b.packed_chunk = std::min(b.packed_chunk, layout.stretch);
  b.kept = {b.direct_chunk, false};
  if (in_place) {
    DivideInPlace(layout, TotalsFitBehind(layout, b.packed_chunk, shortened), keeping.chunk_columns,
                  &b);
  } else if (shortened && layout.planes == 1 && columns > 0) {
    b.kept.two = !few && (b.direct_chunk >= layout.stretch || b.direct_chunk % kKeptStep == 0);
  } else if (layout.planes == 1 && columns > 0) {
    // d_logits of kept columns take at most a quarter of kept logits, half of kept exponents, and at
    // most 1 GiB, but no less than d_logits of other columns.
    const int64_t single = std::min(kMostBackwardBytes / (2 * b.padded_rows), columns / 2);
    b.kept = BestKeptChunks(kH200Costs, layout.n, layout.h, columns, layout.stretch,
                            std::max(WithAStretch(layout, single), b.direct_chunk),
                            few ? 0 : WithAStretch(layout, single / 2));
  }
  RegionAllocator direct;
  b.census = direct.Take(1, kCensusBytes);
  b.source = direct.Take(layout.n, 4);
  b.slot = direct.Take(layout.n, 4);
  b.kept_slot = direct.Take(columns > 0 ? layout.n : 0, 4);
  b.rows = direct.Take(layout.n, kRowGradientBytes);
  const auto ends_within = [&](int64_t c) { return c < std::min(layout.stretch, layout.v); };
  const bool of_packed = ends_within(b.packed_chunk);
  b.direct_sums = (some_elsewhere && ends_within(b.direct_chunk)) ||
                  (!in_place && ends_within(b.kept.most)) ||
                  (columns > 0 && layout.first_kept % layout.stretch != 0);
  b.has_sums = of_packed || b.direct_sums;
  if (sums && !b.totals_behind) b.totals = direct.Take(HeldProduct(b.padded_rows, layout.packed_ld), 4);
  if (sums && b.direct_sums) b.sums = direct.Take(HeldProduct(b.padded_rows, layout.packed_ld), 4);
  if (sums && layout.n > 0 && layout.planes == 1) {
    const int64_t longest =
        std::max({b.direct_chunk, b.packed_chunk, in_place ? columns : b.kept.most});
    ComputeTogether(layout, std::min(longest, layout.v), few, shortened, &b);
    if (b.at_once > 1) b.apart = direct.Take(HeldProduct(b.at_once * layout.n, layout.packed_ld), 4);
  }
  b.packed_hidden = direct.Take(HeldProduct(b.padded_rows, row_bytes), 1);
  const auto take_d_logits = [&](RegionAllocator& allocator, int64_t chunk_columns) {
    return allocator.Take(HeldProduct(HeldProduct(b.padded_rows, chunk_columns), layout.planes), 2);
  };
  RegionAllocator packed = direct;
  b.d_logits = take_d_logits(packed, some_elsewhere ? b.packed_chunk : 0);
  b.packed_weight = packed.Take(HeldProduct(b.packed_chunk, row_bytes), 1);
  if (sums && of_packed && !b.direct_sums)
    b.sums = packed.Take(HeldProduct(b.padded_rows, layout.packed_ld), 4);
  // These two layouts begin at b.d_logits too.
  RegionAllocator kept = direct;
  take_d_logits(direct, some_elsewhere ? b.direct_chunk : 0);
  b.other_kept = b.d_logits;
  if (!in_place) {
    take_d_logits(kept, b.kept.most);
    if (b.kept.two) b.other_kept = take_d_logits(kept, b.kept.most);
  }
  b.bytes = std::max({direct.bytes(), packed.bytes(), kept.bytes()});
  return b;
}

// Chooses chunks for a device with another number of clusters. The regions stay where they are, so that
// sizes are the same for every device; a chunk takes at most the memory that it had.
void DivideFor(int clusters, const Layout& layout, BackwardLayout* b) {
  if (layout.n == 0 || layout.planes > 1) return;
  DeviceCosts costs = kH200Costs;
  costs.clusters = clusters;
  const int64_t kept_memory = b->kept.two ? 2 * b->kept.most : b->kept.most;
  for (int64_t* const chunk : {&b->direct_chunk, &b->packed_chunk})
    *chunk = BestChunk(costs, layout.n, layout.h, layout.v, layout.stretch, *chunk);
  b->kept = {b->direct_chunk, false};
  const int64_t columns = layout.v - layout.first_kept;
  if (b->ahead > 0) {
    b->kept = BestInPlaceChunks(costs, layout.n, layout.h, columns, b->ahead);
    b->end_columns = BestEnd(costs, layout.n, layout.h, columns, b->kept);
    return;
  }
  if (columns > 0) {
    // Two buffers with less than a stretch each would need memory for its sums.
    const bool two = !b->sweeps && (b->direct_sums || kept_memory / 2 >= layout.stretch);
    const int64_t each = two ? kept_memory / 2 : 0;
    b->kept = BestKeptChunks(costs, layout.n, layout.h, columns, layout.stretch, kept_memory, each);
  }
  const int64_t other = b->kept.two ? b->padded_rows * b->kept.most * 2 : 0;
  b->other_kept = b->d_logits + static_cast<size_t>(other);
}

// Everything that a layout depends on.
struct LayoutKey {
  int64_t n, h, v;
  DType dtype;
  bool sums, has_backward;
  Keeping keeping;
  int clusters;

  bool operator==(const LayoutKey&) const = default;
};

std::optional<Layout> LayoutOf(const LayoutKey& key) {
  Layout layout;
  layout.n = key.n;
  layout.h = key.h;
  layout.v = key.v;
  layout.planes = key.dtype == DType::kF32 ? kPlanes : 1;
  layout.passes = key.dtype == DType::kF32 ? kPlanePasses : 1;
  layout.exponents = KeptAsExponents(key.dtype, key.keeping.form);
  layout.first_kept = layout.v;
  layout.stretch = StretchOf(layout.v);
  layout.has_backward = key.has_backward;
  layout.packed_ld = RoundUp(layout.h, 8);
  const int64_t row_bytes = HeldProduct(layout.packed_ld, 2 * layout.planes);  // of a packed row
  for (size_t i = 0; i < std::size(kPartialColumns); ++i) {
    layout.forward[i] = MakeForward(layout, row_bytes, kPartialColumns[i]);
    layout.workspace_bytes = std::max(layout.workspace_bytes, layout.forward[i].bytes);
  }
  if (layout.has_backward) {
    layout.first_kept = FirstKept(layout, key.keeping.bytes);
    layout.backward = MakeBackward(layout, row_bytes, key.sums, key.keeping);
    layout.workspace_bytes = std::max(layout.workspace_bytes, layout.backward.bytes);
    if (layout.n > 0)
      layout.saved_bytes = sizeof(SavedHeader) + static_cast<size_t>(layout.n) * kSavedRowBytes;
    if (key.clusters != kH200Costs.clusters && key.keeping.chunk_columns == 0)
      DivideFor(key.clusters, layout, &layout.backward);
  }
  if (layout.workspace_bytes > kMostBytes) return std::nullopt;
  return layout;
}

}  // namespace

const ForwardLayout& Layout::ForwardOf(int columns) const {
  return *std::ranges::find(forward, columns, &ForwardLayout::columns);
}

std::optional<Layout> MakeLayout(const Problem& problem, const Results& results, const Keeping& keeping,
                                 int clusters) {
  struct Remembered {
    LayoutKey key{};
    std::optional<Layout> layout;
  };
  thread_local std::array<Remembered, 8> last;  // layouts of the last shapes; `next` is the oldest
  thread_local size_t next = 0;
  const LayoutKey key = {.n = problem.rows(),
                         .h = problem.hidden_size(),
                         .v = problem.vocab(),
                         .dtype = problem.hidden.dtype,
                         .sums = results.grad_hidden.has_value(),
                         .has_backward = results.grad_hidden || results.grad_weight,
                         .keeping = keeping,
                         .clusters = clusters};
  for (const Remembered& one : last) {
    if (one.layout && one.key == key) return one.layout;
  }
  const std::optional<Layout> layout = LayoutOf(key);
  if (layout) {
    last[next] = {key, layout};
    next = (next + 1) % last.size();
  }
  return layout;
}

}  // namespace plumbline::kernel::cuda
