// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/stages/kept_d_logits.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "kernel/cuda/stages/kept_row.cuh"
#include "kernel/cuda/support/launch.h"
#include "kernel/cuda/support/overlap.cuh"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kStride = kThreads * kKeptColumns;
constexpr int kStep = 2 * kStride;  // columns whose loads a block has in flight
constexpr int64_t kMostBlocks = 1 << 20;
// Few rows are divided into parts, up to so many blocks: 8 for each multiprocessor of an H200.
constexpr int64_t kEnoughBlocks = 1056;
static_assert(kLogitGroup % kKeptColumns == 0 && kExponentGroup % kKeptColumns == 0);
static_assert(std::ranges::equal(kPartialColumns, std::array{128, 192}));  // KeptRow::Offset
static_assert(InPlaceRows(1) == kKeptRowBlock);

// A block takes a part of a row at a time: `part_columns` columns, a multiple of kStep.
template <bool kInPlanes, bool kExponents, class Element>
__global__ void __launch_bounds__(kThreads, 4)
    KeptDLogitsKernel(const KeptChunk chunk, const int parts, const int part_columns) {
  AwaitPreviousGrid();
  AllowNextGrid();
  const int64_t all = KeptRows(chunk) * parts;
  for (int64_t piece = blockIdx.x; piece < all; piece += gridDim.x) {
    const int64_t r = piece / parts;
    const KeptRow<kExponents> row(chunk, r);
    Element* const to = static_cast<Element*>(chunk.d_logits) + r * chunk.ld;
    int first = static_cast<int>(piece % parts) * part_columns;
    const int end = first + min(part_columns, chunk.columns - first);
    const int whole = row.kept != nullptr ? min(end, row.columns) : 0;
    for (; first + kStep <= whole; first += kStep) {
      const int column = first + static_cast<int>(threadIdx.x) * kKeptColumns;
      const typename KeptRow<kExponents>::Line lines[2] = {row.Load(column),
                                                           row.Load(column + kStride)};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float dz[kKeptColumns];
        row.Gradients(column + i * kStride, lines[i], dz);
        StoreKept<kInPlanes>(dz, to + column + i * kStride, chunk.plane_stride);
      }
    }
    row.template MakeFrom<kInPlanes>(first, end, to, static_cast<int>(threadIdx.x), kThreads);
  }
}

}  // namespace

template <class Element>
KeptChunk KeptChunkOf(const Kept& kept, const BackwardList& list,
                      const DLogitsEpilogue<Element>& epilogue) {
  const int64_t at = epilogue.first_column - kept.first_column;
  return {.logits = kept.logits != nullptr ? kept.logits + at : nullptr,
          .exponents = kept.exponents != nullptr ? kept.exponents + at : nullptr,
          .kept_ld = kept.ld,
          .offsets = kept.offsets,
          .tile_columns = kept.tile_columns,
          .slot = kept.slot,
          .source = list.source,
          .live = &list.census->live,
          .rows = epilogue.rows,
          .d_logits = epilogue.d_logits,
          .ld = epilogue.ld,
          .plane_stride = epilogue.plane_stride,
          .first_column = epilogue.first_column,
          .columns = static_cast<int32_t>(epilogue.columns)};
}

template <class Element>
Status KeptDLogits(const Kept& kept, const BackwardList& list, int64_t rows,
                   const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  const int64_t all_rows = RoundUp(rows, kKeptRowBlock), columns = epilogue.columns;
  if (all_rows == 0 || columns == 0) return Status::Ok();
  const int64_t wanted = std::max<int64_t>(kEnoughBlocks / all_rows, 1);
  const int64_t part_columns = RoundUp(CeilDiv(columns, wanted), int64_t{kStep});
  const int64_t parts = CeilDiv(columns, part_columns);
  const int64_t blocks = std::min(all_rows * parts, kMostBlocks);
  const KeptChunk chunk = KeptChunkOf(kept, list, epilogue);
  const auto launch = [&](void (*kernel)(KeptChunk, int, int)) {
    return LaunchKernelEarly("KeptDLogits", kernel, blocks, kThreads, 0, stream, chunk, parts,
                             part_columns);
  };
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    if (epilogue.plane_stride != 0) return launch(KeptDLogitsKernel<true, false, Element>);
    if (kept.exponents != nullptr) return launch(KeptDLogitsKernel<false, true, Element>);
  }
  return launch(KeptDLogitsKernel<false, false, Element>);
}

template KeptChunk KeptChunkOf(const Kept&, const BackwardList&, const DLogitsEpilogue<__nv_bfloat16>&);
template KeptChunk KeptChunkOf(const Kept&, const BackwardList&, const DLogitsEpilogue<__half>&);
template Status KeptDLogits(const Kept&, const BackwardList&, int64_t,
                            const DLogitsEpilogue<__nv_bfloat16>&, cudaStream_t);
template Status KeptDLogits(const Kept&, const BackwardList&, int64_t, const DLogitsEpilogue<__half>&,
                            cudaStream_t);

}  // namespace plumbline::kernel::cuda
