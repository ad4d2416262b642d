// SPDX-License-Identifier: Apache-2.0
//
// Backward's first epilogue: d_logits of a tile from its logits and what forward knows of each row,
//
//   y = c (z - m),  p = 2^y / s,  dx = g ([v = label] - p) - k p (ln p + H),  dz = dx / T
//
// with ln p + H = q / s - t, in which ln s cancels exactly. Everything is fp32 until dz is rounded to
// the elements that the gradients' products read; the label's 1 takes part before. fp32 problems keep
// dz in planes. Elements outside of the rows that live and the columns that exist are +0, since they
// are part of the depth of a later product.

#ifndef PLUMBLINE_KERNEL_CUDA_D_LOGITS_EPILOGUE_CUH_
#define PLUMBLINE_KERNEL_CUDA_D_LOGITS_EPILOGUE_CUH_

#include <cstdint>

#include "kernel/cuda/fragment.cuh"

namespace plumbline::kernel::cuda {

// A row as backward sees it. A row without a softmax, or with invalid data, has a NaN inverse_sum.
struct RowGradient {
  float max;                  // m
  float scale;                // c = log2 e / T
  float inverse_sum;          // 1 / s
  float mean_gap;             // q / s, the mean of t
  float grad_logprob;         // g
  float grad_entropy;         // k
  float inverse_temperature;  // 1 / T
  float unused;
  int64_t label;  // -1: none
};

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

  template <int BN>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int offset = lane % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t r = row + lane / 4 + 8 * h;
      if (r >= allocated_rows) continue;
      const RowGradient gradient = r < live_rows ? rows[r] : Dead();
      // Asked once a row: asked for each pair, the code of four planes lies between all others.
      if (plane_stride == 0) {
        StoreRow<BN, false>(d, h, gradient, column + offset, d_logits + r * ld);
      } else if constexpr (!kIsHalf) {
        StoreRow<BN, true>(d, h, gradient, column + offset, d_logits + r * ld);
      }
    }
  }

  // Of one logit.
  __device__ static float Gradient(const RowGradient& row, float z, bool is_label) {
    constexpr float kLn2 = 0.693147180559945309f;
    const float y = Exponent(z, row.max, row.scale);
    const float p = Exp2(y) * row.inverse_sum;
    // A label whose logit is -infinity has dz = 0 (OPERATION.md, decision 5).
    const float one = is_label && z != MinusInfinity() ? 1.0f : 0.0f;
    const float of_logprob = row.grad_logprob * (one - p);
    const float of_entropy = row.grad_entropy * (p * fmaf(y, kLn2, row.mean_gap));
    return (of_logprob - of_entropy) * row.inverse_temperature;
  }

 private:
  __device__ static RowGradient Dead() { return {0, 0, 0, 0, 0, 0, 0, 0, -1}; }

  template <int BN, bool kInPlanes>
  __device__ void StoreRow(const float (&d)[BN / 2], int h, const RowGradient& row, int64_t column,
                           Element* to) const {
    const int64_t distance = row.label - first_column - column;
    const int at = distance >= 0 && distance < BN ? static_cast<int>(distance) : -1;
    const int last = static_cast<int>(columns - column < BN ? columns - column : BN);
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      float dz[2];
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        dz[q] = Gradient(row, d[4 * j + 2 * h + q], at == 8 * j + q);
        if (row.label == -1 && row.inverse_sum == 0) dz[q] = 0;
        if (8 * j + q >= last) dz[q] = 0;
      }
      // Columns past the last are in memory too: d_logits come in whole tiles.
      StorePair<kInPlanes>(to + column + 8 * j, dz[0], dz[1]);
    }
  }

  template <bool kInPlanes>
  __device__ void StorePair(Element* to, float a, float b) const {
    if constexpr (!kInPlanes) {
      Put(to, Narrow<Element>(a), Narrow<Element>(b));
    } else {
      const Planes x = SplitPlanes(a), y = SplitPlanes(b);
      Put(to, x.lo, y.lo);
      Put(to + plane_stride, x.mid, y.mid);
      Put(to + 2 * plane_stride, x.hi, y.hi);
      Put(to + 3 * plane_stride, x.raw, y.raw);
    }
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
