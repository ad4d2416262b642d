// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/stages/kept_d_logits.h"

#include <algorithm>
#include <type_traits>

#include "kernel/cuda/stages/kept_row.cuh"
#include "kernel/cuda/support/launch.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kStride = kThreads * kKeptColumns;
constexpr int64_t kMostBlocks = 1 << 20;
static_assert(kKeptGroup % kKeptColumns == 0);

// A block takes a row at a time.
template <bool kInPlanes, class Element>
__global__ void __launch_bounds__(kThreads, 4) KeptDLogitsKernel(const KeptChunk chunk) {
  const int64_t rows = KeptRows(chunk);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const KeptRow row(chunk, r);
    Element* const to = static_cast<Element*>(chunk.d_logits) + r * chunk.ld;
    const int columns = row.logits != nullptr ? row.columns : 0;
    int first = 0;
    for (; first + 2 * kStride <= columns; first += 2 * kStride) {  // loads of two in flight
      const int column = first + static_cast<int>(threadIdx.x) * kKeptColumns;
      float z[2][kKeptColumns];
#pragma unroll
      for (int i = 0; i < 2; ++i) LoadKept(row.logits + column + i * kStride, z[i]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        row.Gradients(column + i * kStride, z[i]);
        StoreKept<kInPlanes>(z[i], to + column + i * kStride, chunk.plane_stride);
      }
    }
    row.MakeFrom<kInPlanes>(first, chunk, to, static_cast<int>(threadIdx.x), kThreads);
  }
}

}  // namespace

template <class Element>
KeptChunk KeptChunkOf(const Kept& kept, const BackwardList& list,
                      const DLogitsEpilogue<Element>& epilogue) {
  return {.logits = kept.logits + epilogue.first_column - kept.first_column,
          .logits_ld = kept.ld,
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
  const int64_t blocks =
      std::min((rows + kKeptRowBlock - 1) / kKeptRowBlock * kKeptRowBlock, kMostBlocks);
  if (blocks == 0 || epilogue.columns == 0) return Status::Ok();
  const KeptChunk chunk = KeptChunkOf(kept, list, epilogue);
  constexpr bool kIsHalf = std::is_same_v<Element, __half>;
  if (!kIsHalf && epilogue.plane_stride != 0) {
    return LaunchKernel("KeptDLogits", KeptDLogitsKernel<!kIsHalf, Element>, blocks, kThreads, 0,
                        stream, chunk);
  }
  return LaunchKernel("KeptDLogits", KeptDLogitsKernel<false, Element>, blocks, kThreads, 0, stream,
                      chunk);
}

template KeptChunk KeptChunkOf(const Kept&, const BackwardList&, const DLogitsEpilogue<__nv_bfloat16>&);
template KeptChunk KeptChunkOf(const Kept&, const BackwardList&, const DLogitsEpilogue<__half>&);
template Status KeptDLogits(const Kept&, const BackwardList&, int64_t,
                            const DLogitsEpilogue<__nv_bfloat16>&, cudaStream_t);
template Status KeptDLogits(const Kept&, const BackwardList&, int64_t, const DLogitsEpilogue<__half>&,
                            cudaStream_t);

}  // namespace plumbline::kernel::cuda
