// SPDX-License-Identifier: Apache-2.0
//
// Backward's first epilogue: computes d_logits of a tile from its logits and from what forward saved of
// each row,
//
//   y = c (z - m),  p = 2^y / s,  dx = g ([v = label] - p) - k p (ln p + H),  dz = dx / T
//
// with ln p + H = q / s - t, in which ln s cancels exactly. At a label the 1 takes part before anything
// of dx is rounded. The label's dz is computed once a row, from the logit that forward saved
// (kernel/cuda/stages/list_rows.cu). All other columns are p (level + slope y) from two numbers of the
// row. Their errors are relative to |g| p and |k| p (t + q / s), so they are within the same bound
// (oracle/ERROR-BUDGET.md). Everything is fp32 until dz is rounded to the elements that the gradients'
// products read; fp32 problems keep dz in planes. Rows past the last live one are 0, because they are
// part of the depth of a later product.
//
// In problems of bf16 y goes through fp16, in the form in which forward keeps it
// (kernel/cuda/layout/saved_state.h): the exponent from the maximum of the column's tile, rounded, and
// that maximum's own exponent, the tile's offset, added in fp32. This epilogue makes both anew, with
// the same bits, so that it does not matter which columns are kept. The tile is that of forward's
// partial sums.

#pragma once

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda {

// The numbers of a row that backward needs. A row without a softmax, or with invalid data, has a NaN
// weight.
struct alignas(16) RowGradient {
  float max;     // m
  float scale;   // c = log2 e / T
  float weight;  // unit / s; unit is a power of two that keeps the next two in the range of floats
  float level;   // -(g + k q / s) / T / unit
  float slope;   // -k ln 2 / T / unit
  float label_gradient;  // dz of the label
  int32_t label;         // -1: none
  int32_t unused = 0;    // written too: rows are copied as bytes
};

// Returns dz of any column but the label's, from its exponent.
__device__ inline float GradientAt(const RowGradient& row, float y) {
  return Exp2(y) * row.weight * fmaf(row.slope, y, row.level);
}
// Returns the same from its logit.
__device__ inline float OtherGradient(const RowGradient& row, float z) {
  return GradientAt(row, Exponent(z, row.max, row.scale));
}
// Returns dz of two columns from their exponents in fp16 (PackPair), which count from their tile's
// maximum, and the tile's offset.
__device__ inline float2 KeptGradients(const RowGradient& row, uint32_t exponents, float offset) {
  const float2 y = __half22float2(*reinterpret_cast<const __half2*>(&exponents));
  return {GradientAt(row, y.x + offset), GradientAt(row, y.y + offset)};
}

// The rows that d_logits are computed for, and the memory that they are stored in.
template <class Element>
struct DLogitsStore {
  const RowGradient* rows = nullptr;  // in the order of A's rows
  Element* d_logits = nullptr;        // [row, column], allocated in whole tiles
  int64_t ld = 0;                     // a multiple of 8
  int64_t plane_stride = 0;           // elements; 0: one plane
  int64_t columns = 0;                // of this launch
  int64_t allocated_rows = 0;
  int64_t first_column = 0;  // of the vocabulary, where this launch begins
  // Whether exponents go through fp16. The launch then begins with a tile, and each of its tiles has
  // all columns in the product that it has in the vocabulary.
  bool exponents = false;
  int64_t vocab = 0;
};

// Whether d_logits are in planes is a template argument. Asked at run time, the code of four planes
// took a tenth of the time where H is 1024 (bench/NOTES.md, 9).
template <class Element, bool in_planes = false, bool through_fp16 = false>
struct DLogitsEpilogue : DLogitsStore<Element> {
  static constexpr bool kLoads = false;
  static constexpr int kRowBytes = sizeof(RowGradient);
  using Fields = DLogitsStore<Element>;
  using Fields::allocated_rows, Fields::columns, Fields::d_logits, Fields::first_column, Fields::ld,
      Fields::plane_stride, Fields::rows, Fields::vocab;
  static_assert(!in_planes || !through_fp16);

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    // Columns past the last are stored too: d_logits are allocated in whole tiles, and nothing reads
    // those columns.
    if constexpr (through_fp16) {
      StoreThroughFp16<BN>(d, row, column, live_rows, scratch);
    } else {
      StoreFromLogits<BN>(d, row, column, live_rows, scratch);
    }
  }

 private:
  template <int BN, class Scratch>
  __device__ void StoreFromLogits(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                                  Scratch scratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    RowGradient gradient[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) gradient[h] = RowOf(h, row, live_rows, scratch);
    Element* to = d_logits + row * ld + column;
    const auto dz = [&](int h, int i) { return OtherGradient(gradient[h], d[i]); };
    if constexpr (!in_planes) {
      StoreWide<Element, BN>(to, ld, allocated_rows - row, scratch, dz);
    } else {
#pragma unroll
      for (int i = 0; i < BN / 2; i += 2) {
        const int h = i / 2 % 2, r = lane / 4 + 8 * h;
        if (r < allocated_rows - row)
          PutPlanes(to + r * ld + i / 4 * 8 + lane % 4 * 2, SplitPlanes(dz(h, i)),
                    SplitPlanes(dz(h, i + 1)));
      }
    }
    __syncwarp();  // another lane has stored the label's column
#pragma unroll
    for (int h = 0; h < 2; ++h) StoreLabel<BN>(gradient[h], column, to + (lane / 4 + 8 * h) * ld);
  }

  template <int BN, class Scratch>
  __device__ void StoreThroughFp16(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                                   Scratch scratch) const {
    static_assert(BN % 64 == 0);
    const int64_t left = vocab - (first_column + column);
    if (left < BN) EndColumns<BN>(d, static_cast<int>(left));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowGradient own = RowOf(h, row, live_rows, scratch);
      const float largest = RowMaximum<BN>(d, h), offset = Exponent(largest, own.max, own.scale);
      Element* const to = d_logits + (row + 8 * h) * ld + column;
      uint32_t pairs[4];  // of 32 columns
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        const int i = 4 * j + 2 * h;
        const uint32_t kept = PackPair<__half>(Exponent(d[i], largest, own.scale),
                                               Exponent(d[i + 1], largest, own.scale));
        const float2 dz = KeptGradients(own, kept, offset);
        pairs[j % 4] = PackPair<Element>(dz.x, dz.y);
        if (j % 4 == 3) {
          StoreHalf<false>(pairs, j / 8, j % 8 / 4, to + j / 8 * 64, ld, allocated_rows - row - 8 * h,
                           scratch);
        }
      }
      __syncwarp();  // also because another lane has stored the label's column
      StoreLabel<BN>(own, column, to + threadIdx.x % 32 / 4 * ld);
    }
  }

  // Returns the lane's first row where h is 0, its second where h is 1.
  __device__ RowGradient RowOf(int h, int64_t row, int64_t live_rows, NoScratch) const {
    const int r = static_cast<int>(threadIdx.x % 32) / 4 + 8 * h;
    return row + r < live_rows ? rows[row + r] : RowGradient{.label = -1};
  }
  __device__ static RowGradient RowOf(int h, int64_t, int64_t, WarpScratch scratch) {
    const int r = static_cast<int>(threadIdx.x % 32) / 4 + 8 * h;
    return RowAt(scratch.rows + static_cast<uint32_t>(r * kRowBytes));
  }

  // Dead rows produce zeros, the label column included.
  __device__ static RowGradient RowAt(uint32_t address) {
    static_assert(kRowBytes == 32);
    RowGradient row;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(row.max), "=f"(row.scale), "=f"(row.weight), "=f"(row.level)
                 : "r"(address)
                 : "memory");
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(row.slope), "=f"(row.label_gradient)
                 : "r"(address + 16)
                 : "memory");
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(row.label) : "r"(address + 24) : "memory");
    return row;
  }

  // Overwrites the label's column with the row's own dz. The first of the four lanes of a row stores
  // it.
  template <int BN>
  __device__ void StoreLabel(const RowGradient& row, int64_t column, Element* to) const {
    const int64_t at = row.label - (first_column + column);
    if (row.label < 0 || at < 0 || at >= BN || threadIdx.x % 4 != 0) return;
    if constexpr (!in_planes) {
      to[at] = Narrow<Element>(row.label_gradient);
    } else {
      StorePlanes(SplitPlanes(row.label_gradient), to + at, plane_stride);
    }
  }

  __device__ void PutPlanes(Element* to, const Planes& x, const Planes& y) const {
    Put(to, x.lo, y.lo);
    Put(to + plane_stride, x.mid, y.mid);
    Put(to + 2 * plane_stride, x.hi, y.hi);
    Put(to + 3 * plane_stride, x.raw, y.raw);
  }

  // The column and ld are even, so the pair is aligned.
  __device__ static void Put(Element* to, Element a, Element b) {
    struct alignas(4) Pair {
      Element a, b;
    };
    *reinterpret_cast<Pair*>(to) = {a, b};
  }
};

// Calls `launch` with the type of the epilogue for one plane or four, and for its exponents.
template <class Element, class Launch>
auto KnowingForm(const DLogitsEpilogue<Element>& epilogue, const Launch& launch) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    const DLogitsStore<Element>& fields = epilogue;
    if (epilogue.plane_stride != 0) return launch(DLogitsEpilogue<Element, true>{fields});
    if (epilogue.exponents) return launch(DLogitsEpilogue<Element, false, true>{fields});
  }
  return launch(epilogue);
}

}  // namespace plumbline::kernel::cuda
