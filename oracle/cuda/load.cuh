// SPDX-License-Identifier: Apache-2.0
//
// Loads what a device's thread reads: a column of a row, or an element of a float tensor, widened
// exactly. The oracle decodes inputs with its own code, so that a kernel's mistake in decoding cannot
// hide here.

#pragma once

#include <cstdint>

#include "oracle/budget/forward_bound-inl.h"
#include "oracle/cuda/launch.h"

namespace plumbline::oracle::cuda {

__device__ __forceinline__ double WidenBf16(uint16_t bits) {
  return static_cast<double>(__uint_as_float(static_cast<unsigned>(bits) << 16));
}

__device__ __forceinline__ double WidenFp16(uint16_t bits) {
  const unsigned magnitude = bits & 0x7fffu;
  // The fields are moved to fp32's places, where the exponent is 112 too small. The product with 2^112
  // corrects that, for subnormals too. An exponent of all ones must stay all ones.
  float scaled = __uint_as_float(magnitude << 13) * 0x1p112f;
  if (magnitude > 0x7bffu) scaled = __uint_as_float(__float_as_uint(scaled) | 0x7f800000u);
  return static_cast<double>(
      __uint_as_float(__float_as_uint(scaled) | static_cast<unsigned>(bits & 0x8000u) << 16));
}

__device__ __forceinline__ double LoadFloat(const Matrix& v, int64_t i, int64_t j) {
  const int64_t at = i * v.stride[0] + j * v.stride[1];
  if (v.dtype == kernel::DType::kF32) {
    return static_cast<double>(static_cast<const float*>(v.data)[at]);
  }
  const uint16_t bits = static_cast<const uint16_t*>(v.data)[at];
  return v.dtype == kernel::DType::kBf16 ? WidenBf16(bits) : WidenFp16(bits);
}

// Column v of the row that lies at `place` among the logits.
__device__ __forceinline__ Column<double> LoadColumn(const Logits& logits, const RowTerms& r,
                                                     const LogitTerms& common, int64_t place,
                                                     int64_t v) {
  const int64_t at = place * logits.ld + v;
  return ColumnOf(r, logits.z[at], LogitBound(r, common, logits.abs_sum[at], logits.weight_lsb[v]));
}

}  // namespace plumbline::oracle::cuda
