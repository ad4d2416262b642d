// SPDX-License-Identifier: Apache-2.0
//
// What a defect computes in the place of the operator, where that takes more than a line. Every
// function here is called behind `defects.Has(...)` alone, so none is part of the operator.

#ifndef PLUMBLINE_KERNEL_HOST_PLANTED_H_
#define PLUMBLINE_KERNEL_HOST_PLANTED_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernel/dtype.h"
#include "kernel/host/convert.h"
#include "kernel/host/defects.h"
#include "kernel/host/simd.h"
#include "kernel/host/tiling.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host::planted {

inline float ThroughBFloat16(float value) { return ToFloat(ToBFloat16(value)); }

// To 10 bits of fraction, ties to even; NaN and infinities as they are.
inline float ToTf32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits >> 23 & 0xff) == 0xff) return value;
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff});
}

// WidenRows with 31 bits of an offset in elements. The product itself in int32 would be negative from
// 2^31 on: a read outside the tensor, which a crash gives away, where this one is silent.
inline void WidenRowsBy31Bits(const Matrix& source, const int64_t* rows, int64_t count, int64_t columns,
                              float* out) {
  for (int64_t r = 0; r < count; ++r) {
    int64_t offset = rows[r] * source.stride[0];
    if (offset > 0) offset &= std::numeric_limits<int32_t>::max();
    const int64_t zero = 0;
    const Matrix row = {
        static_cast<const char*>(source.data) + offset * static_cast<int64_t>(SizeOf(source.dtype)),
        source.dtype,
        {source.stride[0], source.stride[1]}};
    WidenRows(row, &zero, 1, columns, out + r * columns);
  }
}

// Exponentials under kExponentialFlushed and kExponentialBase.
template <class Defects>
void AlteredExponentials(const float* z, float m, float temperature, float* t, float* e,
                         const Defects& defects) {
  Exponentials(z, m, temperature, kTile, t, e);
  if (defects.Has(Defect::kExponentialFlushed)) {
    for (int64_t j = 0; j < kTile; ++j) e[j] = e[j] < FLT_MIN ? 0 : e[j];
  }
  if (defects.Has(Defect::kExponentialBase)) {
    constexpr float kRatio = 1.4453125F / 1.44269504F;  // log2 e in bf16, over log2 e
    float scaled[kTile], unused[kTile];
    for (int64_t j = 0; j < kTile; ++j) scaled[j] = -kRatio * t[j];
    Exponentials(scaled, 0, 1, kTile, unused, e);
  }
}

// SumTile over AlteredExponentials.
template <class Defects>
TileSums AlteredSums(const float* z, float m, float temperature, const Defects& defects) {
  float t[kTile], e[kTile];
  AlteredExponentials(z, m, temperature, t, e, defects);
  TileSums sums = {0, 0};
  for (int64_t j = 0; j < kTile; ++j) {
    sums.s += e[j];
    sums.q += e[j] == 0 ? 0 : e[j] * t[j];
  }
  return sums;
}

// Whether a column of the tile has weight 0 beside a maximum of m.
inline bool HasZeroWeight(const float* z, int64_t width, float m, float temperature) {
  float t[kTile], e[kTile];
  Exponentials(z, m, temperature, kTile, t, e);
  return std::any_of(e, e + width, [](float weight) { return weight == 0; });
}

// The weight of a logit of 0 beside a maximum of m.
inline float WeightOfZero(float m, float temperature) {
  float z[kTile] = {}, t[kTile], e[kTile];
  Exponentials(z, m, temperature, kTile, t, e);
  return e[0];
}

// How often this process has been here: what a race, or a choice by the clock, is stood in for by.
inline uint32_t CountRun() {
  static std::atomic<uint32_t> runs{0};
  return runs.fetch_add(1);
}

// Something where nothing of hidden lies: behind its first row, if a second one follows.
inline void WriteIntoPadding(const Problem& problem) {
  const ConstTensor& hidden = problem.hidden;
  if (hidden.shape[0] < 2 || hidden.stride[0] <= hidden.shape[1]) return;
  const size_t size = SizeOf(hidden.dtype);
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(hidden.data));
  std::fill_n(bytes + static_cast<size_t>(hidden.shape[1]) * size, size, std::byte{0x3c});
}

// Element i of an fp32 input.
inline void WriteInput(const ConstTensor& input, int64_t i, float value) {
  static_cast<float*>(const_cast<void*>(input.data))[i] = value;
}

}  // namespace plumbline::kernel::host::planted

#endif  // PLUMBLINE_KERNEL_HOST_PLANTED_H_
