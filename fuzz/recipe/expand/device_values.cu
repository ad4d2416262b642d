// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/recipe/expand/kinds.h"

namespace plumbline::fuzz {
namespace {

constexpr int kThreads = 256;

// A matrix [rows, columns] of a recipe's dtype.
struct Matrix {
  void* data;
  kernel::DType dtype;
  double largest;  // the dtype's largest finite value
  int64_t rows, columns, stride0, stride1;

  __device__ void Store(int64_t i, int64_t j, double value) const {
    const int64_t at = i * stride0 + j * stride1;
    const auto x = static_cast<float>(fmin(fmax(value, -largest), largest));
    if (dtype == kernel::DType::kF32) {
      static_cast<float*>(data)[at] = x;
    } else if (dtype == kernel::DType::kBf16) {
      const unsigned bits = __float_as_uint(x);
      static_cast<uint16_t*>(data)[at] =
          static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    } else {
      uint16_t half;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
      static_cast<uint16_t*>(data)[at] = half;
    }
  }
};

// Threads run along the dimension that is contiguous.
template <bool kWeight, class Kind>
__global__ void FillKernel(Kind kind, Matrix to) {
  const int64_t total = to.rows * to.columns, step = static_cast<int64_t>(gridDim.x) * kThreads;
  const bool along_rows = to.stride0 == 1 && to.stride1 != 1;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < total; k += step) {
    const int64_t i = along_rows ? k % to.rows : k / to.columns;
    const int64_t j = along_rows ? k / to.rows : k % to.columns;
    if constexpr (kWeight) {
      to.Store(i, j, kind.template Weight<BitsOfOneElement>(i)(j));
    } else {
      to.Store(i, j, kind.template Hidden<BitsOfOneElement>(i)(j));
    }
  }
}

__global__ void DamageKernel(const unsigned char* memory, int64_t bytes, unsigned char pattern,
                             int64_t first, int64_t lines, int64_t length, int64_t pitch,
                             unsigned long long* count, unsigned long long* least) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < bytes; at += step) {
    const int64_t from = at - first;
    const bool inside = from >= 0 && lines > 0 && from / pitch < lines && from % pitch < length;
    if (inside || memory[at] == pattern) continue;
    atomicAdd(count, 1ULL);
    atomicMin(least, static_cast<unsigned long long>(at));
  }
}

unsigned Blocks(int64_t work) {
  const int64_t blocks = (work + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < 65536 ? blocks : 65536);
}

}  // namespace

void FillHidden(const Recipe& r, void* data, int64_t stride0, int64_t stride1) {
  const Matrix to = {data, r.dtype, LargestOf(r.dtype), r.n, r.h, stride0, stride1};
  VisitKind(r, [&](const auto& kind) { FillKernel<false><<<Blocks(r.n * r.h), kThreads>>>(kind, to); });
}

void FillWeight(const Recipe& r, void* data, int64_t stride0, int64_t stride1) {
  const Matrix to = {data, r.dtype, LargestOf(r.dtype), r.v, r.h, stride0, stride1};
  VisitKind(r, [&](const auto& kind) { FillKernel<true><<<Blocks(r.v * r.h), kThreads>>>(kind, to); });
}

void CountDamage(const unsigned char* memory, int64_t bytes, unsigned char pattern, int64_t first,
                 int64_t lines, int64_t length, int64_t pitch, unsigned long long* count,
                 unsigned long long* least) {
  DamageKernel<<<Blocks(bytes), kThreads>>>(memory, bytes, pattern, first, lines, length, pitch, count,
                                            least);
}

}  // namespace plumbline::fuzz
