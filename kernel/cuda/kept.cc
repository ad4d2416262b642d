// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/kept.h"

#include <algorithm>

#include "kernel/cuda/cutter.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int64_t kDepthBlock = 64;  // the largest of any path
static_assert(kDepthBlock % kKeptGroup == 0);

int64_t FirstKeptColumn(const Layout& layout, size_t limit) {
  if (layout.n == 0 || layout.v == 0) return layout.v;
  const auto floats = static_cast<int64_t>(std::min(limit, kMostBytes) / sizeof(float));
  const int64_t most = floats / layout.n / kKeptGroup * kKeptGroup;
  if (layout.v <= most) return 0;
  const int64_t unit = layout.planes > 1 ? layout.backward.packed_chunk : kDepthBlock;
  return std::min(RoundUp(layout.v - most, unit), layout.v);
}

}  // namespace

std::optional<KeptLayout> MakeKeptLayout(const Layout& layout, size_t limit) {
  KeptLayout kept;
  kept.first_column = layout.has_backward ? FirstKeptColumn(layout, limit) : layout.v;
  kept.ld = RoundUp(layout.v - kept.first_column, kKeptGroup);
  Cutter cutter;
  if (layout.has_backward) {
    kept.saved = cutter.Take(static_cast<int64_t>(layout.saved_bytes), 1);
    kept.slot = cutter.Take(layout.n, sizeof(int32_t));
    for (size_t* region :
         {&kept.logprob, &kept.entropy, &kept.lse, &kept.grad_logprob, &kept.grad_entropy})
      *region = cutter.Take(layout.n, sizeof(float));
    kept.logits = cutter.Take(HeldProduct(layout.n, kept.ld), sizeof(float));
  }
  kept.passes = cutter.Take(static_cast<int64_t>(layout.workspace_bytes), 1);
  kept.bytes = cutter.bytes();
  if (kept.bytes > kMostBytes) return std::nullopt;
  return kept;
}

}  // namespace plumbline::kernel::cuda
