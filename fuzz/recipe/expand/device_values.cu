// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "fuzz/base/philox.h"
#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/recipe/expand/purpose.h"

namespace plumbline::fuzz {
namespace {

constexpr int kThreads = 256;

__device__ PhiloxBlock At(const FillPlan& p, Purpose purpose, int64_t row, int64_t column = 0) {
  return Stream(p.seed, static_cast<uint32_t>(purpose)).At(row, column);
}
// The device forms of RowBits::Word and RowBits::Pair.
__device__ uint32_t Word(const FillPlan& p, Purpose purpose, int64_t row, int64_t column) {
  const PhiloxBlock block = At(p, purpose, row, column / 4);
  const int at = static_cast<int>(column % 4);
  return at == 0 ? block[0] : at == 1 ? block[1] : at == 2 ? block[2] : block[3];
}
__device__ uint64_t Pair(const FillPlan& p, Purpose purpose, int64_t row, int64_t column) {
  const PhiloxBlock block = At(p, purpose, row, column / 2);
  const bool second = column % 2 != 0;
  return uint64_t{second ? block[3] : block[1]} << 32 | (second ? block[2] : block[0]);
}

// Computes x * 2^exp for the exponents that plans have, -1022 to 1023.
__device__ double ByPower(double x, int exp) {
  return x * __longlong_as_double(static_cast<long long>(exp + 1023) << 52);
}

// The exponent of a digit of kTies: class Digits of fuzz/recipe/expand/logits.cc with least = -3.
__device__ int DigitExponent(const FillPlan& p, int64_t d) {
  return -3 + 7 * static_cast<int>(p.places - 1 - d);
}
__device__ int DigitShare(const FillPlan& p, int64_t d) {
  const int exponent = DigitExponent(p, d);
  return !p.fp16 ? 0 : exponent > 8 ? exponent - 8 : exponent < -24 ? exponent + 24 : 0;
}

__device__ bool IsChannel(const FillPlan& p, int64_t at) {
  return at == p.channels[0] || at == p.channels[1] || at == p.channels[2];
}

__device__ double HiddenValue(const FillPlan& p, int64_t i, int64_t d) {
  switch (p.values) {
    case Values::kGaussian:
      return Bell(Pair(p, Purpose::kHidden, i, d));
    case Values::kSmallLse:
    case Values::kAllNegative: {
      const int64_t steps = p.values == Values::kSmallLse ? 3 : 4;
      if (d == 0) {
        return 1 + static_cast<double>(Below(At(p, Purpose::kHiddenPlan, i)[0], steps)) / 4;
      }
      return fabs(Bell(Pair(p, Purpose::kHidden, i, d)));
    }
    case Values::kOffset:
      return d < p.count ? p.scale : static_cast<double>(1 + Below(Word(p, Purpose::kHidden, i, d), 2));
    case Values::kConfident: {
      const uint32_t word = Word(p, Purpose::kHidden, i, d);
      if (d >= p.count) return static_cast<double>(Below(word, 17) - 8) / 8;
      return d == i % p.count ? 1.0 : static_cast<double>(Below(word, 3) - 1) / 64;
    }
    case Values::kLattice:
      return ByPower(
          static_cast<double>(Below(Word(p, Purpose::kHidden, i, d), 2 * p.limit + 1) - p.limit),
          p.hidden_exp);
    case Values::kTies: {
      const int scale = static_cast<int>(Below(At(p, Purpose::kHiddenPlan, i)[0], 3)) - 1;
      if (d < p.count) return ByPower(1.0, DigitShare(p, d) + scale);
      return static_cast<double>(Below(Word(p, Purpose::kHidden, i, d), 17) - 8);
    }
    default: {  // kMassive
      const uint64_t pair = Pair(p, Purpose::kHidden, i, d);
      if (!IsChannel(p, d)) return 0x1p-6 * Bell(pair);
      const double sign = (d & 1) != 0 ? -1 : 1;
      return sign * (1000 + 7000 * Unit(static_cast<uint32_t>(pair)));
    }
  }
}

__device__ double WeightValue(const FillPlan& p, int64_t v, int64_t d) {
  switch (p.values) {
    case Values::kGaussian:
      return p.scale * Bell(Pair(p, Purpose::kWeight, v, d));
    case Values::kSmallLse: {
      if (d > 0) {
        return -(fabs(Bell(Pair(p, Purpose::kWeight, v, d))) * 0.5 / static_cast<double>(p.h - 1));
      }
      const double unit = Unit(At(p, Purpose::kWeightPlan, v)[0]);
      return IsChannel(p, v) ? -2 * unit : -p.scale * (1 + unit / 2);
    }
    case Values::kAllNegative:
      if (d == 0) return -p.scale;
      if (d == 1) return -4 * Unit(At(p, Purpose::kWeightPlan, v)[0]);
      return -(fabs(Bell(Pair(p, Purpose::kWeight, v, d))) * 0.25 / static_cast<double>(p.h - 2));
    case Values::kOffset: {
      if (d < p.count) return d == 0 ? p.parts[0] : d == 1 ? p.parts[1] : p.parts[2];
      const PhiloxBlock plan = At(p, Purpose::kWeightPlan, v);
      const int64_t dims = p.h - p.count, at = d - p.count;
      return static_cast<double>((at == Below(plan[0], dims) ? Below(plan[2], 3) : 0) +
                                 (at == Below(plan[1], dims) ? Below(plan[3], 3) : 0));
    }
    case Values::kConfident: {
      if (d < p.count) return p.leading[d] == v ? p.scale : 0.0;
      const PhiloxBlock plan = At(p, Purpose::kWeightPlan, v);
      const int64_t dims = p.h - p.count, at = d - p.count;
      const int64_t noise = (at == Below(plan[0], dims) ? Below(plan[2], 5) - 2 : 0) +
                            (at == Below(plan[1], dims) ? Below(plan[3], 5) - 2 : 0);
      return static_cast<double>(noise) / 8;
    }
    case Values::kLattice:
      return ByPower(
          static_cast<double>(Below(Word(p, Purpose::kWeight, v, d), 2 * p.limit + 1) - p.limit),
          p.weight_exp);
    case Values::kTies: {
      if (d >= p.count) return 0.0;
      const uint32_t word = At(p, Purpose::kWeight, v)[0];
      const bool tied = p.style == 0   ? v == p.edge || v == p.edge - 1
                        : p.style == 1 ? v % p.tile == 0 || v % p.tile == p.tile - 1
                                       : (word & 1) != 0;
      const int64_t k = tied ? p.top : p.top - 1 - Below(word, 64);
      const int64_t digit = ((k < 0 ? -k : k) >> (7 * (p.places - 1 - d))) & 127;
      return ByPower(static_cast<double>(k < 0 ? -digit : digit),
                     DigitExponent(p, d) - DigitShare(p, d));
    }
    default: {  // kMassive
      const double bell = Bell(Pair(p, Purpose::kWeight, v, d));
      return IsChannel(p, d) ? ByPower(bell, p.weight_exp) : bell;
    }
  }
}

__device__ void Store(const FillPlan& p, double value, void* data, int64_t at) {
  const auto x = static_cast<float>(fmin(fmax(value, -p.largest), p.largest));
  if (p.dtype == kernel::DType::kF32) {
    static_cast<float*>(data)[at] = x;
  } else if (p.dtype == kernel::DType::kBf16) {
    const unsigned bits = __float_as_uint(x);
    static_cast<uint16_t*>(data)[at] =
        static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  } else {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    static_cast<uint16_t*>(data)[at] = half;
  }
}

// Threads run along the dimension that is contiguous.
template <bool kWeight>
__global__ void FillKernel(FillPlan p, void* data, int64_t stride0, int64_t stride1) {
  const int64_t rows = kWeight ? p.v : p.n, total = rows * p.h;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const bool along_rows = stride0 == 1 && stride1 != 1;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < total; k += step) {
    const int64_t i = along_rows ? k % rows : k / p.h, d = along_rows ? k / rows : k % p.h;
    Store(p, kWeight ? WeightValue(p, i, d) : HiddenValue(p, i, d), data, i * stride0 + d * stride1);
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

void FillHidden(const FillPlan& plan, void* data, int64_t stride0, int64_t stride1) {
  FillKernel<false><<<Blocks(plan.n * plan.h), kThreads>>>(plan, data, stride0, stride1);
}

void FillWeight(const FillPlan& plan, void* data, int64_t stride0, int64_t stride1) {
  FillKernel<true><<<Blocks(plan.v * plan.h), kThreads>>>(plan, data, stride0, stride1);
}

void CountDamage(const unsigned char* memory, int64_t bytes, unsigned char pattern, int64_t first,
                 int64_t lines, int64_t length, int64_t pitch, unsigned long long* count,
                 unsigned long long* least) {
  DamageKernel<<<Blocks(bytes), kThreads>>>(memory, bytes, pattern, first, lines, length, pitch, count,
                                            least);
}

}  // namespace plumbline::fuzz
