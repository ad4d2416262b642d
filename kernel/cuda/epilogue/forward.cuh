// SPDX-License-Identifier: Apache-2.0
//
// Forward's epilogue with logits, or exponents in their place, kept for backward
// (kernel/cuda/layout/saved_state.h): stores those of the kept columns, and reduces the tile as
// SoftmaxEpilogue does.
//
// Both are stored with __stcs, so that the caches evict them first: they are read again only after
// everything else. Lines of 128 bytes are stored whole, also where one reaches past the vocabulary.

#pragma once

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/epilogue/softmax.cuh"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda {

// Chooses at run time what is kept.
struct ForwardEpilogue : SoftmaxEpilogue {
  // Indexed by row, in the order of A's rows; null: none are kept. first_kept may be in the middle of a
  // tile.
  float* kept_logits = nullptr;
  int64_t kept_ld = 0;
  int64_t first_kept = 0;    // column of the vocabulary, a multiple of 64
  int64_t kept_columns = 0;  // whole lines of 128 bytes, at most kept_ld
  // The same of exponents, in fp16; not null: these are kept, and not the logits.
  uint16_t* kept_exponents = nullptr;

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    if (kept_exponents != nullptr) {
      KeepExponents<BN, Moment::kAsked>(d, row, column, live_rows, scratch);
    } else {
      KeepLogits<BN>(d, row, column, live_rows, scratch);
    }
  }

 protected:
  template <int BN, class Scratch>
  __device__ void KeepLogits(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                             Scratch scratch) const {
    if (kept_logits != nullptr) {
      const KeptColumns<BN> kept(*this, column);
      float* const to = kept_logits + row * kept_ld + kept.column;
#pragma unroll
      for (int first = 0; first < BN; first += kLogitGroup) {
        if (kept.Has(first)) StoreLogits<BN>(d, first, to + first, live_rows - row, scratch);
      }
    }
    Reduce<BN, Moment::kAsked>(d, row, column, live_rows, [](int, int, float, float) {});
  }

  // Stores the exponents with which the softmax of the tile is summed, rounded to fp16.
  template <int BN, Moment kMoment, class Scratch>
  __device__ void KeepExponents(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                                Scratch scratch) const {
    static_assert(BN % kExponentGroup == 0);
    const KeptColumns<BN> kept(*this, column);
    uint16_t* const to = kept_exponents + row * kept_ld + kept.column;
    const int rows = static_cast<int>(min(live_rows - row, int64_t{kFragmentRows}));
    uint32_t pairs[4];  // of 32 columns
    Reduce<BN, kMoment>(d, row, column, live_rows, [&](int h, int j, float a, float b) {
      pairs[j % 4] = PackPair<__half>(a, b);
      if (j % 4 < 3) return;
      const int group = j / 8, first = group * kExponentGroup;
      if (kept.Has(first)) {
        StoreHalf<true>(pairs, group, j % 8 / 4, to + h * 8 * kept_ld + first, kept_ld, rows - h * 8,
                        scratch);
      }
      if (j == BN / 8 - 1) __syncwarp();
    });
  }

 private:
  // The columns of a tile that are kept. `column` counts from the first kept column; a negative one
  // says that the tile begins before it.
  template <int BN>
  struct KeptColumns {
    int64_t column;
    int begin, end;  // of the tile

    __device__ KeptColumns(const ForwardEpilogue& of, int64_t at)
        : column(of.first_column + at - of.first_kept) {
      const int64_t left = of.kept_columns - column;
      begin = column < -BN ? BN : column < 0 ? static_cast<int>(-column) : 0;
      end = left < BN ? static_cast<int>(left) : BN;
    }
    __device__ bool Has(int first) const { return first >= begin && first < end; }
  };

  template <int BN>
  __device__ void StoreLogits(const float (&d)[BN / 2], int first, float* to, int64_t rows,
                              NoScratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kLogitGroup / 2; i += 2) {
      const int r = lane / 4 + i / 2 % 2 * 8;
      const float2 pair = {d[first / 2 + i], d[first / 2 + i + 1]};
      if (r < rows)
        __stcs(reinterpret_cast<float2*>(to + r * kept_ld + i / 4 * 8 + lane % 4 * 2), pair);
    }
  }

  // Stores a line of 128 bytes a row. The places of its 16-byte pieces in shared memory are swizzled by
  // the row, so that neither the stores nor the loads of a warp conflict in a bank.
  template <int BN>
  __device__ void StoreLogits(const float (&d)[BN / 2], int first, float* to, int64_t rows,
                              WarpScratch scratch) const {
    static_assert(BN % kLogitGroup == 0);
    static_assert(kFragmentRows * kLogitGroup * sizeof(float) == kWarpScratchBytes);
    const auto piece = [scratch](int r, int at) {
      return scratch.address + static_cast<uint32_t>(r * 128 + (at ^ (r % 4 * 2)) * 16);
    };
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kLogitGroup / 2; i += 2) {
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

// These know at compile time what is kept, and of exponents whether there is a moment.
struct KeepsLogits : ForwardEpilogue {
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    KeepLogits<BN>(d, row, column, live_rows, scratch);
  }
};
template <Moment kMoment>
struct KeepsExponents : ForwardEpilogue {
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    KeepExponents<BN, kMoment>(d, row, column, live_rows, scratch);
  }
};

// Calls `launch` with the epilogue for what is kept, which knows so at compile time.
template <class Element, class Launch>
auto KnowingKept(const ForwardEpilogue& epilogue, const Launch& launch) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    if (epilogue.kept_exponents != nullptr) {
      return epilogue.moment != nullptr ? launch(KeepsExponents<Moment::kStored>{epilogue})
                                        : launch(KeepsExponents<Moment::kLeftOut>{epilogue});
    }
  }
  if (epilogue.kept_logits != nullptr) return launch(KeepsLogits{epilogue});
  const SoftmaxEpilogue& nothing_kept = epilogue;
  return epilogue.moment != nullptr ? launch(nothing_kept) : launch(SumAlone{nothing_kept});
}

}  // namespace plumbline::kernel::cuda
