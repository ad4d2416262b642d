// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/workspace.h"

#include <algorithm>

#include "kernel/cuda/cutter.h"
#include "kernel/cuda/hopper/schedule.h"
#include "kernel/cuda/product.h"

namespace plumbline::kernel::cuda {
namespace {

// For 8192 x 4096 x 151936 in bf16 these make 87 MiB forward and 440 MiB backward at most.
constexpr int64_t kForwardBytes = int64_t{72} << 20;        // partial sums and moved rows
constexpr int64_t kForwardWeightBytes = int64_t{16} << 20;  // a packed chunk of weight
constexpr int64_t kBackwardBytes = int64_t{248} << 20;      // d_logits, with a packed chunk of weight
// ... of more rows: three times a packed hidden, up to this. A short chunk reads and writes the sums of
// grad_hidden often.
constexpr int64_t kMostBackwardBytes = int64_t{1} << 30;
constexpr int64_t kColumnStep = 384;     // a multiple of the tiles 128 and 192
constexpr int64_t kPlaneColumns = 1536;  // of a chunk of an fp32 problem, whatever its rows
constexpr int64_t kRowStep = 256;

int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }

// As few pieces as `most` allows, of the same size up to `step`.
int64_t EvenPiece(int64_t whole, int64_t most, int64_t step) {
  most = std::max(most / step * step, step);
  const int64_t pieces = std::max<int64_t>(CeilDiv(whole, most), 1);
  return std::min(most, std::max(RoundUp(CeilDiv(whole, pieces), step), step));
}

// Estimated time of backward's products with chunks of that many columns, in cycles of a
// multiprocessor: for 64 of the depth a tile of 128 x 192 (d_logits) or 192 x 128 (the gradients) takes
// 768, and 66 clusters of two take them in turn. The gradients' products of a chunk run into each
// other; d_logits wait, where they are a product at all. It decides how well a chunk fills the device,
// and no bit.
double BackwardCost(int64_t n, int64_t h, int64_t v, int64_t columns, bool kept) {
  constexpr int kClusters = 66;
  constexpr int64_t kMostTiles = int64_t{1} << 30;
  constexpr double kBlock = 768, kLaunches = 12000;
  const auto chunk = [&](int64_t c) {
    const int64_t logits = kept ? 0 : CeilDiv(n, 256) * CeilDiv(c, 192);
    const int64_t hidden = CeilDiv(n, 192) * CeilDiv(h, 256),
                  weight = CeilDiv(c, 192) * CeilDiv(h, 256);
    const double of_hidden = kBlock * static_cast<double>(CeilDiv(c, 64));
    const double of_weight = kBlock * static_cast<double>(CeilDiv(n, 64));
    const hopper::Head head = hopper::HeadBeside(
        kClusters, {static_cast<int>(hidden % kClusters), static_cast<float>(of_hidden)},
        {static_cast<int>(std::min(weight, kMostTiles)), static_cast<float>(of_weight)});
    const int64_t rest = std::max<int64_t>(weight - int64_t{head.clusters} * head.rounds, 0);
    const auto tiles = [](int64_t count) { return static_cast<double>(count); };
    // Of a cluster of the head, and of one that grad_hidden keeps longest.
    const double short_end = of_hidden * tiles(hidden / kClusters) +
                             of_weight * tiles(head.rounds + CeilDiv(rest, kClusters));
    const double long_end =
        of_hidden * tiles(CeilDiv(hidden, kClusters)) +
        of_weight * tiles(rest / kClusters + (rest % kClusters > head.clusters ? 1 : 0));
    return kBlock * static_cast<double>(CeilDiv(logits, kClusters) * CeilDiv(h, 64)) +
           std::max(short_end, long_end) + kLaunches;
  };
  const int64_t whole = v / columns, rest = v % columns;
  return static_cast<double>(whole) * chunk(columns) + (rest > 0 ? chunk(rest) : 0);
}

// The columns up to `most` that cost least; of v whose logits have to be multiplied for, or are kept.
int64_t BestChunk(int64_t n, int64_t h, int64_t v, int64_t most, bool kept) {
  most = std::max(most / kColumnStep * kColumnStep, kColumnStep);
  if (v <= most) return std::max(RoundUp(v, kColumnStep), kColumnStep);
  int64_t best = most;
  double least = BackwardCost(n, h, v, most, kept);
  for (int64_t c = most - kColumnStep; c >= most / 2; c -= kColumnStep) {
    const double cost = BackwardCost(n, h, v, c, kept);
    if (cost < least) {
      least = cost;
      best = c;
    }
  }
  return std::max(best, kColumnStep);
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
  Cutter cutter;
  f.census = cutter.Take(1, kCensusBytes);
  f.source = cutter.Take(layout.n, 4);
  f.label = cutter.Take(layout.n, 8);
  f.scale = cutter.Take(layout.n, 4);
  f.temperature = cutter.Take(layout.n, 4);
  f.label_logit = cutter.Take(layout.n, 4);
  f.row_logprob = cutter.Take(layout.n, 4);
  f.partial_max = cutter.Take(HeldProduct(f.partials, f.row_block), 4);
  f.partial_sum = cutter.Take(HeldProduct(f.partials, f.row_block), 4);
  f.partial_moment = cutter.Take(HeldProduct(f.partials, f.row_block), 4);
  f.packed_hidden = cutter.Take(HeldProduct(f.row_block, row_bytes), 1);
  f.packed_weight = cutter.Take(HeldProduct(f.weight_chunk, row_bytes), 1);
  f.bytes = cutter.bytes();
  return f;
}

// Of an fp32 problem.
int64_t PlaneChunk(const Layout& layout) {
  return std::min(kPlaneColumns, std::max(RoundUp(layout.v, kColumnStep), kColumnStep));
}

// The first column whose logits `limit` bytes hold, with all behind it. Kept columns begin at a
// multiple of 64, of fp32 problems at one of backward's chunk, so that the blocks of every chain in
// depth lie as they would without it.
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

// A quarter of what is kept at most, and 1 GiB.
int64_t KeptChunk(const Layout& layout, const BackwardLayout& b) {
  const int64_t columns = layout.v - layout.first_kept;
  if (layout.planes > 1 || columns == 0) return b.direct_chunk;
  const int64_t most = std::min(kMostBackwardBytes / (2 * b.padded_rows), columns / 2);
  return std::max(b.direct_chunk, BestChunk(layout.n, layout.h, columns, most, true));
}

BackwardLayout MakeBackward(const Layout& layout, int64_t row_bytes, bool sums) {
  BackwardLayout b;
  b.padded_rows = RoundUp(layout.n, kRowStep);
  const int64_t most =
      std::clamp(HeldProduct(3 * b.padded_rows, row_bytes), kBackwardBytes, kMostBackwardBytes);
  const auto chunk = [&](int64_t column_bytes) {
    if (layout.n == 0) return kColumnStep;
    if (layout.planes > 1) return PlaneChunk(layout);
    return BestChunk(layout.n, layout.h, layout.v, most / column_bytes, false);
  };
  b.direct_chunk = chunk(std::max<int64_t>(2 * b.padded_rows, 1));
  b.packed_chunk = chunk(std::max<int64_t>(HeldProduct(2, b.padded_rows) + row_bytes, 1));
  b.kept_chunk = KeptChunk(layout, b);
  Cutter direct;
  b.census = direct.Take(1, kCensusBytes);
  b.source = direct.Take(layout.n, 4);
  b.slot = direct.Take(layout.n, 4);
  b.rows = direct.Take(layout.n, kRowGradientBytes);
  if (sums) b.sums = direct.Take(HeldProduct(b.padded_rows, layout.packed_ld), 4);
  b.packed_hidden = direct.Take(HeldProduct(b.padded_rows, row_bytes), 1);
  const auto take_d_logits = [&](Cutter& cutter, int64_t columns) {
    return cutter.Take(HeldProduct(HeldProduct(b.padded_rows, columns), layout.planes), 2);
  };
  Cutter packed = direct;
  b.d_logits = take_d_logits(packed, b.packed_chunk);
  b.packed_weight = packed.Take(HeldProduct(b.packed_chunk, row_bytes), 1);
  take_d_logits(direct, b.kept_chunk);  // at b.d_logits too, and no shorter than direct_chunk
  b.bytes = std::max(direct.bytes(), packed.bytes());
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
