// SPDX-License-Identifier: Apache-2.0
//
// Forward's epilogue with logits kept for backward (kernel/cuda/kept.h): stores those of the columns
// that are kept, then what they add to the softmax.

#ifndef PLUMBLINE_KERNEL_CUDA_FORWARD_EPILOGUE_CUH_
#define PLUMBLINE_KERNEL_CUDA_FORWARD_EPILOGUE_CUH_

#include <cstdint>

#include "kernel/cuda/kept.h"
#include "kernel/cuda/softmax_epilogue.cuh"

namespace plumbline::kernel::cuda {

struct ForwardEpilogue : SoftmaxEpilogue {
  // By row, as rows lie in A; null: none are kept. first_kept may be in the middle of a tile.
  float* kept_logits = nullptr;
  int64_t kept_ld = 0;
  int64_t first_kept = 0;  // column of the vocabulary, a multiple of kKeptGroup

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    if (kept_logits != nullptr) Keep<BN>(d, row, first_column + column - first_kept, live_rows);
    SoftmaxEpilogue::Store<BN>(d, row, column, live_rows, scratch);
  }

 private:
  // `column` counts from the first that is kept; negative: not all of the tile is. What lies past the
  // vocabulary is stored up to the end of a group.
  template <int BN>
  __device__ void Keep(const float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
    static_assert(BN % kKeptGroup == 0);
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int64_t left = kept_ld - column;
    const int begin = column < -BN ? BN : column < 0 ? static_cast<int>(-column) : 0;
    const int end = left < BN ? static_cast<int>(left) : BN;
    if (begin >= end) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t r = row + lane / 4 + 8 * h;
      if (r >= live_rows) continue;
      float* const to = kept_logits + r * kept_ld + column + lane % 4 * 4;
#pragma unroll
      for (int c = 0; c < BN; c += kKeptGroup) {
        if (c < begin || c >= end) continue;
        const int j = c / 8;
        // Not read again before everything else has gone by: out of the caches first.
        __stcs(reinterpret_cast<float4*>(to + c),
               {d[4 * j + 2 * h], d[4 * j + 2 * h + 1], d[4 * j + 4 + 2 * h], d[4 * j + 5 + 2 * h]});
      }
    }
  }
};

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_FORWARD_EPILOGUE_CUH_
