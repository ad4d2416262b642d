// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/workspace.h"

#include <algorithm>

#include "kernel/cuda/cutter.h"

namespace plumbline::kernel::cuda {
namespace {

// For 8192 x 4096 x 151936 in bf16 these make 73 MiB forward and 408 MiB backward.
constexpr int64_t kForwardBytes = int64_t{64} << 20;        // partial sums and moved rows
constexpr int64_t kForwardWeightBytes = int64_t{16} << 20;  // a packed chunk of weight
constexpr int64_t kBackwardBytes = int64_t{224} << 20;      // d_logits and a packed chunk of weight
constexpr int64_t kColumnStep = 768;                        // a multiple of the tiles 128, 192 and 256
constexpr int64_t kPlaneColumns = 1536;  // of a chunk of an fp32 problem, whatever its rows
constexpr int64_t kRowStep = 256;

int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }

// As few pieces as `most` allows, of the same size up to `step`.
int64_t EvenPiece(int64_t whole, int64_t most, int64_t step) {
  most = std::max(most / step * step, step);
  const int64_t pieces = std::max<int64_t>(CeilDiv(whole, most), 1);
  return std::min(most, std::max(RoundUp(CeilDiv(whole, pieces), step), step));
}

constexpr size_t kCensusBytes = 64, kRowGradientBytes = 48, kSavedRowBytes = 16;

}  // namespace

std::optional<Layout> MakeLayout(const Problem& problem, const Results& results) {
  Layout layout;
  layout.n = problem.rows();
  layout.h = problem.hidden_size();
  layout.v = problem.vocab();
  const bool wide = problem.hidden.dtype == DType::kF32;
  layout.planes = wide ? 4 : 1;
  layout.passes = wide ? 6 : 1;
  layout.backward = results.grad_hidden.has_value() || results.grad_weight.has_value();
  layout.packed_ld = RoundUp(layout.h, 8);
  layout.padded_rows = RoundUp(layout.n, kRowStep);
  layout.sums_ld = layout.packed_ld;
  const int64_t tiles = CeilDiv(layout.v, kLeastTile);
  const int64_t row_bytes = HeldProduct(layout.packed_ld, 2 * layout.planes);  // of a packed row

  layout.row_block =
      EvenPiece(layout.n, kForwardBytes / std::max<int64_t>(12 * tiles + row_bytes, 1), kRowStep);
  layout.forward_chunk =
      EvenPiece(layout.v, kForwardWeightBytes / std::max<int64_t>(row_bytes, 1), kColumnStep);
  const int64_t column_bytes = 2 * layout.padded_rows + row_bytes;
  layout.backward_chunk =
      layout.n == 0 ? kColumnStep
      : wide        ? std::min(kPlaneColumns, std::max(RoundUp(layout.v, kColumnStep), kColumnStep))
             : EvenPiece(layout.v, kBackwardBytes / std::max<int64_t>(column_bytes, 1), kColumnStep);

  Cutter forward;
  Regions& f = layout.forward_regions;
  f.census = forward.Take(1, kCensusBytes);
  f.source = forward.Take(layout.n, 4);
  f.label = forward.Take(layout.n, 8);
  f.scale = forward.Take(layout.n, 4);
  f.temperature = forward.Take(layout.n, 4);
  f.label_logit = forward.Take(layout.n, 4);
  f.row_logprob = forward.Take(layout.n, 4);
  f.partial_max = forward.Take(HeldProduct(tiles, layout.row_block), 4);
  f.partial_sum = forward.Take(HeldProduct(tiles, layout.row_block), 4);
  f.partial_moment = forward.Take(HeldProduct(tiles, layout.row_block), 4);
  f.packed_hidden = forward.Take(HeldProduct(layout.row_block, row_bytes), 1);
  f.packed_weight = forward.Take(HeldProduct(layout.forward_chunk, row_bytes), 1);
  f.bytes = forward.bytes();
  layout.workspace_bytes = f.bytes;

  if (layout.backward) {
    Cutter backward;
    Regions& b = layout.backward_regions;
    b.census = backward.Take(1, kCensusBytes);
    b.source = backward.Take(layout.n, 4);
    b.slot = backward.Take(layout.n, 4);
    b.rows = backward.Take(layout.n, kRowGradientBytes);
    if (results.grad_hidden) b.sums = backward.Take(HeldProduct(layout.padded_rows, layout.sums_ld), 4);
    b.d_logits = backward.Take(
        HeldProduct(HeldProduct(layout.padded_rows, layout.backward_chunk), layout.planes), 2);
    b.packed_hidden = backward.Take(HeldProduct(layout.padded_rows, row_bytes), 1);
    b.packed_weight = backward.Take(HeldProduct(layout.backward_chunk, row_bytes), 1);
    b.bytes = backward.bytes();
    layout.workspace_bytes = std::max(layout.workspace_bytes, b.bytes);
    layout.saved_bytes = static_cast<size_t>(layout.n) * kSavedRowBytes;
  }
  if (layout.workspace_bytes > kMostBytes) return std::nullopt;
  return layout;
}

}  // namespace plumbline::kernel::cuda
