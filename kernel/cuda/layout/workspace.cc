// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/workspace.h"

#include <algorithm>

#include "kernel/cuda/product/product.h"
#include "kernel/cuda/product/schedule.h"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {
namespace {

// These limits make at most 87 MiB forward and 440 MiB backward for 8192 x 4096 x 151936 in bf16.
constexpr int64_t kForwardBytes = int64_t{72} << 20;        // partial sums and moved rows
constexpr int64_t kForwardWeightBytes = int64_t{16} << 20;  // a packed chunk of weight
constexpr int64_t kBackwardBytes = int64_t{248} << 20;      // d_logits, with a packed chunk of weight
// With more rows the limit is three times a packed hidden, up to this: short chunks read and write the
// sums of grad_hidden more often.
constexpr int64_t kMostBackwardBytes = int64_t{1} << 30;
constexpr int64_t kColumnStep = 384;     // a multiple of the tiles 128 and 192
constexpr int64_t kKeptStep = 768;       // also of the 256 columns that idle warps copy at a time
constexpr int64_t kPlaneColumns = 1536;  // a chunk of an fp32 problem, whatever its rows
constexpr int64_t kRowStep = 256;

int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Returns the size of as few pieces as `most` allows, equal up to `step`.
int64_t EvenPiece(int64_t whole, int64_t most, int64_t step) {
  most = std::max(most / step * step, step);
  const int64_t pieces = std::max<int64_t>(CeilDiv(whole, most), 1);
  return std::min(most, std::max(RoundUp(CeilDiv(whole, pieces), step), step));
}

// Estimated times of backward, in cycles of a multiprocessor. They choose the chunks and change no bit.
//
// A tile of 128 x 192 (d_logits) or 192 x 128 (the gradients) takes 768 cycles for 64 of the depth. 66
// clusters of two blocks compute tiles at the same time. The launches of a chunk take 12000.
constexpr int kClusters = 66;
constexpr double kBlock = 768, kLaunches = 12000;

// Cost of a chunk's two gradients, where the second product begins during the last round of the first.
double GradientsCost(int64_t n, int64_t h, int64_t columns) {
  constexpr int64_t kMostTiles = int64_t{1} << 30;
  const int64_t hidden = CeilDiv(n, 192) * CeilDiv(h, 256),
                weight = CeilDiv(columns, 192) * CeilDiv(h, 256);
  const double of_hidden = kBlock * static_cast<double>(CeilDiv(columns, 64));
  const double of_weight = kBlock * static_cast<double>(CeilDiv(n, 64));
  const hopper::Head head = hopper::HeadBeside(
      kClusters, {static_cast<int>(hidden % kClusters), static_cast<float>(of_hidden)},
      {static_cast<int>(std::min(weight, kMostTiles)), static_cast<float>(of_weight)});
  const int64_t rest = std::max<int64_t>(weight - int64_t{head.clusters} * head.rounds, 0);
  const auto tiles = [](int64_t count) { return static_cast<double>(count); };
  // The end of a cluster of the head, and of a cluster that grad_hidden occupies longest.
  const double short_end =
      of_hidden * tiles(hidden / kClusters) + of_weight * tiles(head.rounds + CeilDiv(rest, kClusters));
  const double long_end =
      of_hidden * tiles(CeilDiv(hidden, kClusters)) +
      of_weight * tiles(rest / kClusters + (rest % kClusters > head.clusters ? 1 : 0));
  return std::max(short_end, long_end) + kLaunches;
}

// Cost of v columns in chunks whose d_logits are a product of their own, which overlaps with no other.
double BackwardCost(int64_t n, int64_t h, int64_t v, int64_t columns) {
  const auto chunk = [&](int64_t c) {
    const int64_t logits = CeilDiv(n, 256) * CeilDiv(c, 192);
    return kBlock * static_cast<double>(CeilDiv(logits, kClusters) * CeilDiv(h, 64)) +
           GradientsCost(n, h, c);
  };
  const int64_t whole = v / columns, rest = v % columns;
  return static_cast<double>(whole) * chunk(columns) + (rest > 0 ? chunk(rest) : 0);
}

// Returns the chunk of at most `most` columns that costs least.
int64_t BestChunk(int64_t n, int64_t h, int64_t v, int64_t most) {
  most = std::max(most / kColumnStep * kColumnStep, kColumnStep);
  if (v <= most) return std::max(RoundUp(v, kColumnStep), kColumnStep);
  int64_t best = most;
  double least = BackwardCost(n, h, v, most);
  for (int64_t c = most - kColumnStep; c >= most / 2; c -= kColumnStep) {
    const double cost = BackwardCost(n, h, v, c);
    if (cost < least) {
      least = cost;
      best = c;
    }
  }
  return std::max(best, kColumnStep);
}

// Cost of computing d_logits of `columns` columns on the warps left idle by the two gradient products
// of another chunk, which has `beside` columns: half of them during each product. Only multiprocessors
// that have a tile have such warps. On all of them 8192 x 151936 took 6 ms, measured.
double BesideCost(int64_t n, int64_t h, int64_t beside, int64_t columns) {
  constexpr double kIdleWarps = 0.0065;  // cycles an element
  const auto slower = [](int64_t tiles) {
    return static_cast<double>(kClusters) /
           static_cast<double>(std::clamp<int64_t>(tiles, 1, kClusters));
  };
  const int64_t few_rows = CeilDiv(n, 128) * CeilDiv(h, 64), many = CeilDiv(n, 192) * CeilDiv(h, 256);
  return kIdleWarps / 2 * static_cast<double>(n) * static_cast<double>(columns) *
         (slower(many < kClusters ? few_rows : many) + slower(CeilDiv(beside, 192) * CeilDiv(h, 256)));
}

// Cost of the backward pass over `columns` columns whose logits were kept. With one buffer every
// chunk's d_logits are memory-bound; with two, only the first chunk's are, and the others overlap with
// products.
double KeptCost(int64_t n, int64_t h, int64_t columns, const KeptChunks& chunks) {
  constexpr double kMemory = 0.0019;  // cycles an element: 6 bytes at 4.2 TB/s
  const auto chunk = [&](int64_t own, int64_t next) {
    const double gradients = GradientsCost(n, h, own);
    return chunks.two ? std::max(gradients, BesideCost(n, h, own, next)) : gradients;
  };
  double cost = kMemory * static_cast<double>(n) *
                static_cast<double>(chunks.two ? std::min(chunks.first, columns) : columns);
  int64_t left = columns, length = chunks.first;
  while (left > 0 && length < chunks.most) {
    const int64_t own = std::min(length, left);
    left -= own;
    length = std::min(2 * length, chunks.most);
    cost += chunk(own, std::min(length, left));
  }
  const int64_t whole = left / chunks.most, rest = left % chunks.most;
  if (whole > 0) {
    cost += static_cast<double>(whole - 1) * chunk(chunks.most, chunks.most) + chunk(chunks.most, rest);
  }
  return rest > 0 ? cost + chunk(rest, 0) : cost;
}

// Returns the chunks of kept columns that cost least, with one buffer for d_logits of at most `single`
// columns or two for at most `each`.
KeptChunks BestKeptChunks(int64_t n, int64_t h, int64_t columns, int64_t single, int64_t each) {
  KeptChunks best;
  double least = 0;
  const auto consider = [&](const KeptChunks& chunks) {
    const double cost = KeptCost(n, h, columns, chunks);
    if (best.most == 0 || cost < least) {
      least = cost;
      best = chunks;
    }
  };
  // Tries some 32 lengths, from `most` down to three quarters of it.
  const auto lengths = [&](int64_t most, int64_t step, auto&& take) {
    most = std::min(most / step * step, RoundUp(columns, step));
    const int64_t stride = RoundUp(most / 128 + 1, step);
    for (int64_t c = most; c >= std::max(most / 4 * 3, step); c -= stride) take(c);
  };
  lengths(single, kColumnStep, [&](int64_t c) { consider({c, c, false}); });
  lengths(each, kKeptStep, [&](int64_t c) {
    for (const int64_t part : {1, 2, 4}) consider({RoundUp(CeilDiv(c, part), kKeptStep), c, true});
  });
  return best;
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

// Returns the chunk of an fp32 problem.
int64_t PlaneChunk(const Layout& layout) {
  return std::min(kPlaneColumns, std::max(RoundUp(layout.v, kColumnStep), kColumnStep));
}

// Returns the first column from which on `limit` bytes hold all logits. Kept columns begin at a
// multiple of 64, those of fp32 problems at a multiple of backward's chunk, so that the depth blocks of
// every chain lie as they would without kept logits.
int64_t FirstKept(const Layout& layout, size_t limit) {
  constexpr int64_t kDepthBlock = 64;  // the largest of any path
  static_assert(kDepthBlock % kKeptGroup == 0);
  if (layout.n == 0 || layout.v == 0) return layout.v;
  const auto floats = static_cast<int64_t>(std::min(limit, kMostBytes) / sizeof(float));
  const int64_t most = floats / layout.n / kKeptGroup * kKeptGroup;
  if (layout.v <= most) return 0;
  const int64_t unit = layout.planes > 1 ? PlaneChunk(layout) : kDepthBlock;
  return std::min(RoundUp(layout.v - most, unit), layout.v);
}

BackwardLayout MakeBackward(const Layout& layout, int64_t row_bytes, bool sums) {
  BackwardLayout b;
  b.padded_rows = RoundUp(layout.n, kRowStep);
  const int64_t most =
      std::clamp(HeldProduct(3 * b.padded_rows, row_bytes), kBackwardBytes, kMostBackwardBytes);
  const auto chunk = [&](int64_t column_bytes) {
    if (layout.n == 0) return kColumnStep;
    if (layout.planes > 1) return PlaneChunk(layout);
    return BestChunk(layout.n, layout.h, layout.v, most / column_bytes);
  };
  b.direct_chunk = chunk(std::max<int64_t>(2 * b.padded_rows, 1));
  b.packed_chunk = chunk(std::max<int64_t>(HeldProduct(2, b.padded_rows) + row_bytes, 1));
  const int64_t columns = layout.v - layout.first_kept;
  b.kept = {b.direct_chunk, b.direct_chunk, false};
  if (layout.planes == 1 && columns > 0) {
    // d_logits of kept columns take at most a quarter of what is kept and at most 1 GiB, but no less
    // than d_logits of other columns.
    const int64_t single = std::min(kMostBackwardBytes / (2 * b.padded_rows), columns / 2);
    b.kept = BestKeptChunks(layout.n, layout.h, columns, std::max(single, b.direct_chunk), single / 2);
  }
  RegionAllocator direct;
  b.census = direct.Take(1, kCensusBytes);
  b.source = direct.Take(layout.n, 4);
  b.slot = direct.Take(layout.n, 4);
  b.rows = direct.Take(layout.n, kRowGradientBytes);
  if (sums) b.sums = direct.Take(HeldProduct(b.padded_rows, layout.packed_ld), 4);
  b.packed_hidden = direct.Take(HeldProduct(b.padded_rows, row_bytes), 1);
  const auto take_d_logits = [&](RegionAllocator& allocator, int64_t chunk_columns) {
    return allocator.Take(HeldProduct(HeldProduct(b.padded_rows, chunk_columns), layout.planes), 2);
  };
  RegionAllocator packed = direct;
  b.d_logits = take_d_logits(packed, b.packed_chunk);
  b.packed_weight = packed.Take(HeldProduct(b.packed_chunk, row_bytes), 1);
  // These two layouts begin at b.d_logits too.
  RegionAllocator kept = direct;
  take_d_logits(direct, b.direct_chunk);
  take_d_logits(kept, b.kept.most);
  b.other_kept = b.kept.two ? take_d_logits(kept, b.kept.most) : b.d_logits;
  b.bytes = std::max({direct.bytes(), packed.bytes(), kept.bytes()});
  return b;
}

}  // namespace

const ForwardLayout& Layout::ForwardOf(int columns) const {
  return *std::ranges::find(forward, columns, &ForwardLayout::columns);
}

std::optional<Layout> MakeLayout(const Problem& problem, const Results& results,
                                 size_t kept_logits_bytes) {
  const bool wide = problem.hidden.dtype == DType::kF32;
  Layout layout;
  layout.n = problem.rows();
  layout.h = problem.hidden_size();
  layout.v = problem.vocab();
  layout.planes = wide ? kPlanes : 1;
  layout.passes = wide ? kPlanePasses : 1;
  layout.first_kept = layout.v;
  layout.has_backward = results.grad_hidden.has_value() || results.grad_weight.has_value();
  layout.packed_ld = RoundUp(layout.h, 8);
  const int64_t row_bytes = HeldProduct(layout.packed_ld, 2 * layout.planes);  // of a packed row
  for (size_t i = 0; i < std::size(kPartialColumns); ++i) {
    layout.forward[i] = MakeForward(layout, row_bytes, kPartialColumns[i]);
    layout.workspace_bytes = std::max(layout.workspace_bytes, layout.forward[i].bytes);
  }
  if (layout.has_backward) {
    layout.first_kept = FirstKept(layout, kept_logits_bytes);
    layout.backward = MakeBackward(layout, row_bytes, results.grad_hidden.has_value());
    layout.workspace_bytes = std::max(layout.workspace_bytes, layout.backward.bytes);
    layout.saved_bytes = static_cast<size_t>(layout.n) * kSavedRowBytes;
  }
  if (layout.workspace_bytes > kMostBytes) return std::nullopt;
  return layout;
}

}  // namespace plumbline::kernel::cuda
