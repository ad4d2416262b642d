// SPDX-License-Identifier: Apache-2.0
//
// Backward's first epilogue: d_logits of a tile from its logits and what forward knows of each row,
//
//   y = c (z - m),  p = 2^y / s,  dx = g ([v = label] - p) - k p (ln p + H),  dz = dx / T
//
// with ln p + H = q / s - t, in which ln s cancels exactly. At a label the 1 takes part before anything
// of dx is rounded. All other columns are p (level + slope y) from two numbers of the row, whose errors
// are relative to |g| p and |k| p (t + q / s) and so within the same bound (oracle/ERROR-BUDGET.md).
// Everything is fp32 until dz is rounded to the elements that the gradients' products read; fp32
// problems keep dz in planes. Elements outside of the rows that live and the columns that exist are 0,
// since they are part of the depth of a later product.

#ifndef PLUMBLINE_KERNEL_CUDA_D_LOGITS_EPILOGUE_CUH_
#define PLUMBLINE_KERNEL_CUDA_D_LOGITS_EPILOGUE_CUH_

#include <cstdint>

#include "kernel/cuda/fragment.cuh"
#include "kernel/cuda/wide_store.cuh"

namespace plumbline::kernel::cuda {

// A row as backward sees it. A row without a softmax, or with invalid data, has a NaN inverse_sum.
struct alignas(16) RowGradient {
  float max;          // m
  float scale;        // c = log2 e / T
  float weight;       // unit / s; unit is a power of two that keeps the next two in the range of floats
  float level;        // -(g + k q / s) / T / unit
  float slope;        // -k ln 2 / T / unit
  float inverse_sum;  // 1 / s
  float mean_gap;     // q / s, the mean of t
  float grad_logprob;         // g
  float grad_entropy;         // k
  float inverse_temperature;  // 1 / T
  int32_t label;              // -1: none
};

// dz of the label.
__device__ inline float LabelGradient(const RowGradient& row, float z) {
  constexpr float kLn2 = 0.693147180559945309f;
  const float y = Exponent(z, row.max, row.scale);
  const float p = Exp2(y) * row.inverse_sum;
  // A label whose logit is -infinity has dz = 0 (OPERATION.md, decision 5).
  const float one = z != MinusInfinity() ? 1.0f : 0.0f;
  const float of_logprob = row.grad_logprob * (one - p);
  const float of_entropy = row.grad_entropy * (p * fmaf(y, kLn2, row.mean_gap));
  return (of_logprob - of_entropy) * row.inverse_temperature;
}

// dz of any other column.
__device__ inline float OtherGradient(const RowGradient& row, float z) {
  const float y = Exponent(z, row.max, row.scale);
  return Exp2(y) * row.weight * fmaf(row.slope, y, row.level);
}

template <class Element>
struct DLogitsEpilogue {
  static constexpr bool kLoads = false;

  const RowGradient* rows = nullptr;  // by row, as rows lie in A
  Element* d_logits = nullptr;        // [row, column], allocated in whole tiles
  int64_t ld = 0;                     // a multiple of 8
  int64_t plane_stride = 0;           // elements; 0: one plane
  int64_t columns = 0;                // of this launch
  int64_t allocated_rows = 0;
  int64_t first_column = 0;  // of the vocabulary, where this launch begins

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (column + BN > columns) {  // their p, and so their dz, is 0
      const int last = static_cast<int>(columns - column) - lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) {
        if (i / 4 * 8 + i % 2 >= last) d[i] = MinusInfinity();
      }
    }
    RowGradient gradient[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t r = row + lane / 4 + 8 * h;
      gradient[h] = r < live_rows ? rows[r] : RowGradient{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1};
    }
    const auto dz = [&](int h, int i) { return OtherGradient(gradient[h], d[i]); };
    Element* to = d_logits + row * ld + column;
    // Columns past the last are in memory too: d_logits come in whole tiles.
    if (plane_stride == 0) {
      StoreWide<Element, BN>(to, ld, allocated_rows - row, scratch, dz);
    } else if constexpr (!kIsHalf) {
#pragma unroll
      for (int i = 0; i < BN / 2; i += 2) {
        const int h = i / 2 % 2, r = lane / 4 + 8 * h;
        if (r < allocated_rows - row)
          PutPlanes(to + r * ld + i / 4 * 8 + lane % 4 * 2, SplitPlanes(dz(h, i)),
                    SplitPlanes(dz(h, i + 1)));
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
      StoreLabel<BN>(d, h, gradient[h], first_column + column, to + (lane / 4 + 8 * h) * ld);
  }

 private:
  // Over what was left at the label, if this tile has it. The accumulators are never indexed at
  // run time, which would put them in local memory; most warps have no label among their columns.
  template <int BN>
  __device__ void StoreLabel(const float (&d)[BN / 2], int h, const RowGradient& row, int64_t column,
                             Element* to) const {
    const int64_t distance = row.label < 0 ? -1 : row.label - column;
    const bool here = distance >= 0 && distance < BN && distance % 8 / 2 == threadIdx.x % 4;
    if (!__any_sync(kAllLanes, here)) return;
    float z = 0;
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        if (distance - static_cast<int>(threadIdx.x % 4 * 2) == 8 * j + q) z = d[4 * j + 2 * h + q];
      }
    }
    __syncwarp();  // another lane stored what is overwritten
    if (!here) return;
    const float dz = LabelGradient(row, z);
    if (plane_stride == 0) {
      to[distance] = Narrow<Element>(dz);
    } else if constexpr (!kIsHalf) {
      const Planes planes = SplitPlanes(dz);
      to[distance] = planes.lo;
      to[distance + plane_stride] = planes.mid;
      to[distance + 2 * plane_stride] = planes.hi;
      to[distance + 3 * plane_stride] = planes.raw;
    }
  }

  __device__ void PutPlanes(Element* to, const Planes& x, const Planes& y) const {
    Put(to, x.lo, y.lo);
    Put(to + plane_stride, x.mid, y.mid);
    Put(to + 2 * plane_stride, x.hi, y.hi);
    Put(to + 3 * plane_stride, x.raw, y.raw);
  }

  // An even column of an even ld: aligned to both.
  __device__ static void Put(Element* to, Element a, Element b) {
    struct alignas(4) Pair {
      Element a, b;
    };
    *reinterpret_cast<Pair*>(to) = {a, b};
  }

  template <class A, class B>
  struct Same {
    static constexpr bool value = false;
  };
  template <class A>
  struct Same<A, A> {
    static constexpr bool value = true;
  };
  static constexpr bool kIsHalf = Same<Element, __half>::value;
};

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_D_LOGITS_EPILOGUE_CUH_
