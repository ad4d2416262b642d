// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/kept_d_logits.h"

#include <algorithm>
#include <type_traits>

#include "kernel/cuda/fragment.cuh"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/wide_store.cuh"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 8;  // of a thread at a time: 16 bytes of d_logits
constexpr int kStride = kThreads * kColumns;
constexpr int64_t kRowBlock = 64;
constexpr int64_t kMostBlocks = 1 << 20;
static_assert(kKeptGroup % kColumns == 0);

struct Chunk {
  const float* logits;  // at the chunk's first column
  int64_t ld;
  const int32_t* slot;
  BackwardList list;
};

template <class Element>
__device__ void StoreColumns(const Element (&x)[kColumns], Element* to) {
  struct alignas(16) Line {
    Element x[kColumns];
  };
  Line line;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) line.x[i] = x[i];
  *reinterpret_cast<Line*>(to) = line;
}

template <bool kInPlanes, class Element>
__device__ void StoreGradients(const float (&dz)[kColumns], Element* to, int64_t plane_stride) {
  if constexpr (kInPlanes) {
    Element planes[kPlanes][kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const Planes split = SplitPlanes(dz[i]);
      planes[0][i] = split.lo;
      planes[1][i] = split.mid;
      planes[2][i] = split.hi;
      planes[3][i] = split.raw;
    }
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) StoreColumns(planes[p], to + p * plane_stride);
  } else {
    *reinterpret_cast<uint4*>(to) = {PackPair<Element>(dz[0], dz[1]), PackPair<Element>(dz[2], dz[3]),
                                     PackPair<Element>(dz[4], dz[5]), PackPair<Element>(dz[6], dz[7])};
  }
}

// A block takes a row at a time; whatever a thread does not load counts as a logit of 0.
template <bool kInPlanes, class Element>
__global__ void __launch_bounds__(kThreads, 4)
    KeptDLogitsKernel(const Chunk chunk, const DLogitsEpilogue<Element> epilogue) {
  const int64_t live = chunk.list.census->live;
  const int64_t rows = (live + kRowBlock - 1) / kRowBlock * kRowBlock;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const bool alive = r < live;
    const RowGradient row = alive ? epilogue.rows[r] : RowGradient{.label = -1};
    const int64_t place = alive ? chunk.slot[chunk.list.source[r]] : -1;
    const float* const logits = chunk.logits + place * chunk.ld;
    const int64_t label = row.label - epilogue.first_column;
#pragma unroll 2
    for (int64_t base = 0; base < epilogue.columns; base += kStride) {
      const int64_t column = base + threadIdx.x * kColumns;
      if (column >= epilogue.columns) break;
      float z[kColumns] = {}, dz[kColumns];
      if (place >= 0) {
#pragma unroll
        for (int i = 0; i < kColumns; i += 4) {
          const float4 four = __ldcs(reinterpret_cast<const float4*>(logits + column + i));
          z[i] = four.x;
          z[i + 1] = four.y;
          z[i + 2] = four.z;
          z[i + 3] = four.w;
        }
      }
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const bool exists = alive && column + i < epilogue.columns;
        dz[i] = exists ? OtherGradient(row, z[i]) : 0.0f;
      }
      if (label >= column && label < column + kColumns) {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
          if (column + i == label) dz[i] = row.label_gradient;
        }
      }
      StoreGradients<kInPlanes>(dz, epilogue.d_logits + r * epilogue.ld + column,
                                epilogue.plane_stride);
    }
  }
}

}  // namespace

template <class Element>
Status KeptDLogits(const Kept& kept, const BackwardList& list, int64_t rows,
                   const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  const int64_t blocks = std::min((rows + kRowBlock - 1) / kRowBlock * kRowBlock, kMostBlocks);
  if (blocks == 0 || epilogue.columns == 0) return Status::Ok();
  const Chunk chunk = {.logits = kept.logits + epilogue.first_column - kept.first_column,
                       .ld = kept.ld,
                       .slot = kept.slot,
                       .list = list};
  constexpr bool kIsHalf = std::is_same_v<Element, __half>;
  if (!kIsHalf && epilogue.plane_stride != 0) {
    return LaunchKernel("KeptDLogits", KeptDLogitsKernel<!kIsHalf, Element>, blocks, kThreads, 0,
                        stream, chunk, epilogue);
  }
  return LaunchKernel("KeptDLogits", KeptDLogitsKernel<false, Element>, blocks, kThreads, 0, stream,
                      chunk, epilogue);
}

template Status KeptDLogits(const Kept&, const BackwardList&, int64_t,
                            const DLogitsEpilogue<__nv_bfloat16>&, cudaStream_t);
template Status KeptDLogits(const Kept&, const BackwardList&, int64_t, const DLogitsEpilogue<__half>&,
                            cudaStream_t);

}  // namespace plumbline::kernel::cuda
