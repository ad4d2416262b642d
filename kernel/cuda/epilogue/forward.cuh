// SPDX-License-Identifier: Apache-2.0
//
// Forward's epilogue with logits kept for backward (kernel/cuda/layout/saved_state.h): stores the
// logits of the kept columns, then reduces the tile as SoftmaxEpilogue does.

#pragma once

#include <cstdint>

#include "kernel/cuda/epilogue/softmax.cuh"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda {

struct ForwardEpilogue : SoftmaxEpilogue {
  // Indexed by row, in the order of A's rows; null: none are kept. first_kept may be in the middle of a
  // tile.
  float* kept_logits = nullptr;
  int64_t kept_ld = 0;
  int64_t first_kept = 0;  // column of the vocabulary, a multiple of kKeptGroup

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    if (kept_logits != nullptr) {
      Keep<BN>(d, row, first_column + column - first_kept, live_rows - row, scratch);
    }
    SoftmaxEpilogue::Store<BN>(d, row, column, live_rows, scratch);
  }

 private:
  // Stores with __stcs, so that the caches evict kept logits first: they are read again only after
  // everything else. `column` counts from the first kept column; a negative one says that the tile
  // begins before it. Whole groups of columns are stored, also where one reaches past the vocabulary.
  template <int BN, class Scratch>
  __device__ void Keep(const float (&d)[BN / 2], int64_t row, int64_t column, int64_t rows,
                       Scratch scratch) const {
    static_assert(BN % kKeptGroup == 0);
    const int64_t left = kept_ld - column;
    const int begin = column < -BN ? BN : column < 0 ? static_cast<int>(-column) : 0;
    const int end = left < BN ? static_cast<int>(left) : BN;
    float* const to = kept_logits + row * kept_ld + column;
#pragma unroll
    for (int first = 0; first < BN; first += kKeptGroup) {
      if (first >= begin && first < end) StoreGroup<BN>(d, first, to + first, rows, scratch);
    }
  }

  template <int BN>
  __device__ void StoreGroup(const float (&d)[BN / 2], int first, float* to, int64_t rows,
                             NoScratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kKeptGroup / 2; i += 2) {
      const int r = lane / 4 + i / 2 % 2 * 8;
      const float2 pair = {d[first / 2 + i], d[first / 2 + i + 1]};
      if (r < rows)
        __stcs(reinterpret_cast<float2*>(to + r * kept_ld + i / 4 * 8 + lane % 4 * 2), pair);
    }
  }

  // Stores a line of 128 bytes a row. The places of its 16-byte pieces in shared memory are swizzled by
  // the row, so that neither the stores nor the loads of a warp conflict in a bank.
  template <int BN>
  __device__ void StoreGroup(const float (&d)[BN / 2], int first, float* to, int64_t rows,
                             WarpScratch scratch) const {
    static_assert(kFragmentRows * kKeptGroup * sizeof(float) == kWarpScratchBytes);
    const auto piece = [scratch](int r, int at) {
      return scratch.address + static_cast<uint32_t>(r * 128 + (at ^ (r % 4 * 2)) * 16);
    };
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kKeptGroup / 2; i += 2) {
      const uint32_t at = piece(lane / 4 + i / 2 % 2 * 8, i / 4 * 2 + lane % 4 / 2);
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at + static_cast<uint32_t>(lane % 2 * 8)),
                   "f"(d[first / 2 + i]), "f"(d[first / 2 + i + 1])
                   : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int r = part * 4 + lane / 8;
      float4 four;
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                   : "r"(piece(r, lane % 8))
                   : "memory");
      if (r < rows) __stcs(reinterpret_cast<float4*>(to + r * kept_ld + lane % 8 * 4), four);
    }
    __syncwarp();
  }
};

}  // namespace plumbline::kernel::cuda
