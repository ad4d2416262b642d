// SPDX-License-Identifier: Apache-2.0
//
// The accumulators that every path hands to an epilogue, the interface of an epilogue, and the device
// functions that all paths share.
//
// A fragment is a warp's piece of a product: 16 rows by BN columns in d[BN / 2] of each lane. Lane l
// holds rows l / 4 and l / 4 + 8, columns 8 j + 2 (l mod 4) + {0, 1}: d[4 j + {0, 1}] of the first row,
// d[4 j + {2, 3}] of the second. mma.m16n8 and each warp of a wgmma.m64 leave their results in this
// layout.
//
// An epilogue is a struct passed to kernels by value:
//   static constexpr bool kLoads;  // whether accumulators start from Load instead of from 0
//   template <int BN> __device__ void Load(float (&d)[BN / 2], int64_t row, int64_t column,
//                                          int64_t live_rows) const;
//   template <int BN, class Scratch>
//   __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
//                         Scratch scratch) const;
// row and column are those of the fragment's first element in C; column is a multiple of BN. All 32
// lanes call. Store may destroy d and checks the bounds itself. Scratch is WarpScratch or NoScratch
// (wide_store.cuh). An epilogue that needs data of each row may have it copied to a warp's scratch
// while the products run. It then has
//   static constexpr int kRowBytes;     // of a row, a multiple of 16; its rows lie densely at `rows`,
//                                       // aligned to 16 bytes; rows that do not live are zeros
// An epilogue of a gradient, during whose product d_logits of another chunk may be computed
// (Product::kept), has
//   static constexpr bool kIsGradient;
// One whose product may be of several stretches of the depth (Product::stretch) has
//   __device__ Epilogue Of(int stretch) const;  // of that stretch

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernel/cuda/product/product.h"

namespace plumbline::kernel::cuda {

inline constexpr int kFragmentRows = 16;

template <class Epilogue>
constexpr int RowBytes() {
  if constexpr (requires { Epilogue::kRowBytes; }) {
    return Epilogue::kRowBytes;
  } else {
    return 0;
  }
}
template <class Epilogue>
constexpr bool IsGradient() {
  return requires { Epilogue::kIsGradient; };
}
template <class Epilogue>
constexpr bool HasStretches() {
  return requires(const Epilogue& epilogue) { epilogue.Of(0); };
}
inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline PassPlanes PlanesOf(int passes, int pass) {
  if (passes == 1) return {0, 0};
  // (lo, hi) (mid, mid) (hi, lo) (mid, hi) (hi, mid) (raw, raw), two bits each.
  constexpr unsigned kA = 0u | 1u << 2 | 2u << 4 | 1u << 6 | 2u << 8 | 3u << 10;
  constexpr unsigned kB = 2u | 1u << 2 | 0u << 4 | 2u << 6 | 1u << 8 | 3u << 10;
  return {static_cast<int>(kA >> (2 * pass) & 3), static_cast<int>(kB >> (2 * pass) & 3)};
}

// Returns the number of rows of hidden that this product has.
__device__ inline int64_t LiveRows(const Product& product) {
  const int64_t bound = product.live_is_depth ? product.k : product.m;
  if (product.live_rows == nullptr) return bound;
  const int64_t left = *product.live_rows - product.live_first;
  return left < 0 ? 0 : left < bound ? left : bound;
}

// Returns 2^y within 2.42 u (measured exhaustively, `plumb doctor --probe`); +0 below 2^-126.
__device__ inline float Exp2(float y) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(y));
  return e;
}

// Returns the larger of the two; NaN where either is (fmaxf drops it).
__device__ inline float MaxNaN(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
#else
  return a > b || isnan(a) ? a : b;
#endif
}

// Returns the exponent of a weight, log2 e (z - max) / T, but at least -200, where 2^y is 0. NaN
// becomes -200 too: a NaN logit shows in its row's maximum already, and the difference of two
// infinities of the same sign has to have weight 0.
__device__ inline float Exponent(float z, float max, float scale) {
  return fmaxf((z - max) * scale, -200.0f);
}

__device__ inline float MinusInfinity() { return __int_as_float(static_cast<int>(0xff800000u)); }
__device__ inline float QuietNaN() { return __int_as_float(0x7fffffff); }

// Makes a fragment's columns from number `end` on -infinity.
template <int BN>
__device__ inline void EndColumns(float (&d)[BN / 2], int end) {
  const int last = end - static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) {
    if (i / 4 * 8 + i % 2 >= last) d[i] = MinusInfinity();
  }
}

// Returns the largest element of a fragment's row, NaN if any is: of the lane's first row where h is 0,
// of its second where h is 1. All lanes call.
template <int BN>
__device__ inline float RowMaximum(const float (&d)[BN / 2], int h) {
  float largest = MaxNaN(d[2 * h], d[2 * h + 1]);
#pragma unroll
  for (int j = 1; j < BN / 8; ++j) {
    largest = MaxNaN(largest, MaxNaN(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]));
  }
  largest = MaxNaN(largest, __shfl_xor_sync(kAllLanes, largest, 1));
  return MaxNaN(largest, __shfl_xor_sync(kAllLanes, largest, 2));
}

template <class Element>
__device__ inline Element Narrow(float x);
template <>
__device__ inline __nv_bfloat16 Narrow(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half Narrow(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline float Narrow(float x) {
  return x;
}

__device__ inline float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float Widen(__half x) { return __half2float(x); }
__device__ inline float Widen(float x) { return x; }

// The planes of one fp32 number (kernel/host/tensor_core.h). A number that is not 0 but whose hi is 0
// has 2^-133 in raw: infinity times it must not become NaN, and 2^-133 is below the resolution of a
// product in planes.
struct Planes {
  __nv_bfloat16 lo, mid, hi, raw;
};

__device__ inline Planes SplitPlanes(float x) {
  const __nv_bfloat16 zero = __float2bfloat16_rn(0.0f);
  if (!isfinite(x)) return {zero, zero, zero, __float2bfloat16_rn(x)};
  __nv_bfloat16 hi = __float2bfloat16_rn(x);
  if (__hisinf(hi)) hi = __ushort_as_bfloat16(x > 0 ? 0x7f7f : 0xff7f);
  const float rest = x - __bfloat162float(hi);
  const __nv_bfloat16 mid = __float2bfloat16_rn(rest);
  const __nv_bfloat16 lo = __float2bfloat16_rn(rest - __bfloat162float(mid));
  __nv_bfloat16 raw = hi;
  if (x != 0 && __bfloat162float(hi) == 0) raw = __ushort_as_bfloat16(x > 0 ? 0x0001 : 0x8001);
  return {lo, mid, hi, raw};
}

__device__ inline void StorePlanes(const Planes& x, __nv_bfloat16* to, int64_t plane_stride) {
  to[0] = x.lo;
  to[plane_stride] = x.mid;
  to[2 * plane_stride] = x.hi;
  to[3 * plane_stride] = x.raw;
}

}  // namespace plumbline::kernel::cuda
