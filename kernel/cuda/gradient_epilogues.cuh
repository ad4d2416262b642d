// SPDX-License-Identifier: Apache-2.0
//
// The epilogues of the two gradients. grad_hidden stays in fp32 from one chunk of the vocabulary to the
// next: a product takes up the accumulators where the one before left them, so that the chain of each
// element is the same whatever the chunks. grad_weight is complete after one product, and rounded once.

#ifndef PLUMBLINE_KERNEL_CUDA_GRADIENT_EPILOGUES_CUH_
#define PLUMBLINE_KERNEL_CUDA_GRADIENT_EPILOGUES_CUH_

#include <cstdint>

#include "kernel/cuda/fragment.cuh"
#include "kernel/cuda/wide_store.cuh"

namespace plumbline::kernel::cuda {

struct AccumulateEpilogue {
  static constexpr bool kLoads = true;

  float* sums = nullptr;  // [row, column], in whole fragments' rows
  int64_t ld = 0;         // even
  int64_t columns = 0;
  bool first = true;  // nothing is there yet

  template <int BN>
  __device__ void Load(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < BN / 2; i += 2) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8, c = column + i / 4 * 8 + lane % 4 * 2;
      float2 was = {0, 0};
      // ld is even, so a pair that begins inside of a row is inside of memory.
      if (!first && r < live_rows && c < columns)
        was = *reinterpret_cast<const float2*>(&sums[r * ld + c]);
      d[i] = was.x;
      d[i + 1] = was.y;
    }
  }

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < BN / 2; i += 2) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8, c = column + i / 4 * 8 + lane % 4 * 2;
      if (r < live_rows && c < columns) {
        *reinterpret_cast<float2*>(&sums[r * ld + c]) = {d[i], d[i + 1]};
      }
    }
  }
};

// An output element's dtype, told at run time: the store is all that differs.
enum class Stored : int { kBf16, kF16, kF32 };

__device__ inline void StoreAs(Stored as, void* base, int64_t at, float x) {
  switch (as) {
    case Stored::kBf16:
      static_cast<__nv_bfloat16*>(base)[at] = Narrow<__nv_bfloat16>(x);
      break;
    case Stored::kF16:
      static_cast<__half*>(base)[at] = Narrow<__half>(x);
      break;
    case Stored::kF32:
      static_cast<float*>(base)[at] = x;
      break;
  }
}

struct GradWeightEpilogue {
  static constexpr bool kLoads = false;

  void* grad_weight = nullptr;  // at the chunk's first row
  Stored stored = Stored::kF32;
  int64_t row_stride = 0, column_stride = 0;  // elements; any
  int64_t rows = 0, columns = 0;              // of the chunk

  // live_rows bounds the depth here, which the caller has seen to.
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t,
                        Scratch scratch) const {
    if (column + BN <= columns && InLines()) {
      switch (stored) {
        case Stored::kBf16:
          return StoreLines<__nv_bfloat16, BN>(d, row, column, scratch);
        case Stored::kF16:
          return StoreLines<__half, BN>(d, row, column, scratch);
        case Stored::kF32:
          return StorePairs<BN>(d, row, column);
      }
    }
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8;
      const int64_t c = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (r < rows && c < columns)
        StoreAs(stored, grad_weight, r * row_stride + c * column_stride, d[i]);
    }
  }

 private:
  // Whether 8 columns from a multiple of 8 on can be stored as 16 bytes, or pairs of floats as 8.
  __device__ bool InLines() const {
    const int64_t bytes = stored == Stored::kF32 ? 4 : 2;
    return column_stride == 1 && row_stride * bytes % 16 == 0 &&
           reinterpret_cast<uintptr_t>(grad_weight) % 16 == 0;
  }

  template <class Element, int BN, class Scratch>
  __device__ void StoreLines(const float (&d)[BN / 2], int64_t row, int64_t column,
                             Scratch scratch) const {
    StoreWide<Element, BN>(static_cast<Element*>(grad_weight) + row * row_stride + column, row_stride,
                           rows - row, scratch, [&](int, int i) { return d[i]; });
  }

  template <int BN>
  __device__ void StorePairs(const float (&d)[BN / 2], int64_t row, int64_t column) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < BN / 2; i += 2) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8, c = column + i / 4 * 8 + lane % 4 * 2;
      if (r < rows)
        *reinterpret_cast<float2*>(static_cast<float*>(grad_weight) + r * row_stride + c) = {d[i],
                                                                                             d[i + 1]};
    }
  }
};

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_GRADIENT_EPILOGUES_CUH_
