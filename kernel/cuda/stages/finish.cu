// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/stages/finish.h"

#include <algorithm>

#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/wide_store.cuh"
#include "kernel/cuda/stages/finish_rows.cuh"
#include "kernel/cuda/support/hooks.cuh"
#include "kernel/cuda/support/launch.h"
#include "kernel/cuda/support/overlap.cuh"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kLossThreads = 1024;

__global__ void __launch_bounds__(kLossThreads)
    FinishLossKernel(const float* row_logprob, int64_t rows, const Census* census, bool mean,
                     float* loss) {
  AwaitPreviousGrid();
  __shared__ double sums[kLossThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kLossThreads) sum += static_cast<double>(row_logprob[i]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kLossThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double counted = static_cast<double>(census->counted);
  const double total = mean && counted > 0 ? sums[0] / counted : sums[0];
  *loss = static_cast<float>(0.0 - total);  // a loss of 0 is +0
}

constexpr int kStoreThreads = 256;

// Stores 8 columns at a time, which are 16 contiguous and aligned bytes.
template <class Element>
__device__ void StoreLines(const float* sums, Element* to, int64_t columns) {
  for (int64_t c = threadIdx.x * 8; c < columns; c += kStoreThreads * 8) {
    const float4 a = *reinterpret_cast<const float4*>(sums + c);
    const float4 b = *reinterpret_cast<const float4*>(sums + c + 4);
    *reinterpret_cast<uint4*>(to + c) = {PackPair<Element>(a.x, a.y), PackPair<Element>(a.z, a.w),
                                         PackPair<Element>(b.x, b.y), PackPair<Element>(b.z, b.w)};
  }
}

__global__ void __launch_bounds__(kStoreThreads)
    FinishGradientKernel(const float* sums, int64_t ld, const int32_t* slot,
                         const GradientOutput output, bool lines) {
  AwaitPreviousGrid();
  for (int64_t i = blockIdx.x; i < output.rows; i += gridDim.x) {
    const int32_t place = slot != nullptr ? slot[i] : static_cast<int32_t>(i);
    if (lines && place >= 0) {
      const float* const from = sums + place * ld;
      const int64_t at = i * output.row_stride;
      if (output.stored == Stored::kBf16) {
        StoreLines(from, static_cast<__nv_bfloat16*>(output.data) + at, output.columns);
      } else {
        StoreLines(from, static_cast<__half*>(output.data) + at, output.columns);
      }
      continue;
    }
    for (int64_t c = threadIdx.x; c < output.columns; c += kStoreThreads) {
      const float x = place >= 0 ? sums[place * ld + c] : place == kInvalidRow ? QuietNaN() : 0.0f;
      StoreAs(output.stored, output.data, i * output.row_stride + c * output.column_stride, x);
    }
  }
}

// A block adds kStoreThreads pairs of columns of a row at a time. Both of a pair are there where the
// first one is. Few rows alone would leave multiprocessors idle.
__global__ void __launch_bounds__(kStoreThreads)
    AddStretchesKernel(const StretchSums sums, float* totals, int64_t ld, int64_t columns,
                       const Census* census, bool first) {
  AwaitPreviousGrid();
  const int64_t pieces = CeilDiv(columns, int64_t{kStoreThreads} * 2), all = census->live * pieces;
  for (int64_t piece = blockIdx.x; piece < all; piece += gridDim.x) {
    const int64_t c = (piece % pieces * kStoreThreads + threadIdx.x) * 2;
    if (c >= columns) continue;
    const int64_t at = piece / pieces * ld + c;
    const auto sum_at = [&](int i) {
      return *reinterpret_cast<const float2*>(sums.data + i * sums.apart + at);
    };
    float2 total = first ? sum_at(0) : *reinterpret_cast<const float2*>(totals + at);
#pragma unroll 8
    for (int i = first ? 1 : 0; i < sums.count; ++i) {
      const float2 sum = sum_at(i);
      total = {total.x + sum.x, total.y + sum.y};
    }
    *reinterpret_cast<float2*>(totals + at) = total;
  }
}

}  // namespace

Status AddStretches(const StretchSums& sums, float* totals, int64_t ld, int64_t columns, int64_t rows,
                    const Census* census, bool first, cudaStream_t stream) {
  const int64_t pieces = rows * CeilDiv(columns, int64_t{kStoreThreads} * 2);
  const int64_t blocks = std::min(pieces, kMostFinishBlocks);
  if (blocks == 0) return Status::Ok();
  return LaunchKernelEarly("AddStretches", AddStretchesKernel, blocks, kStoreThreads, 0, stream, sums,
                           totals, ld, columns, census, first);
}

Status FinishRows(const PartialSums& partial, const ForwardList& list, const ForwardOutputs& outputs,
                  SavedRow* saved, cudaStream_t stream) {
  return LaunchFinishRows(partial, list, outputs, saved, stream, NoHooks());
}

Status FinishLoss(const float* row_logprob, int64_t rows, const Census* census, bool mean, float* loss,
                  cudaStream_t stream) {
  return LaunchKernelEarly("FinishLoss", FinishLossKernel, 1, kLossThreads, 0, stream, row_logprob,
                           rows, census, mean, loss);
}

Status FinishGradient(const float* sums, int64_t ld, const int32_t* slot, const GradientOutput& output,
                      cudaStream_t stream) {
  const int64_t blocks = std::min(output.rows, kMostFinishBlocks);
  if (blocks == 0) return Status::Ok();
  const bool lines = output.stored != Stored::kF32 && output.column_stride == 1 &&
                     output.columns % 8 == 0 && RowsAligned(output.data, output.row_stride, 2);
  return LaunchKernelEarly("FinishGradient", FinishGradientKernel, blocks, kStoreThreads, 0, stream,
                           sums, ld, slot, output, lines);
}

}  // namespace plumbline::kernel::cuda
