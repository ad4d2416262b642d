// SPDX-License-Identifier: Apache-2.0
//
// Roundings of numbers in place, to so many bits or to a dtype.

#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernel/dtype.h"

namespace plumbline::fuzz {

// Rounds to `bits` significant bits, to nearest, ties away from zero.
inline void KeepBits(int bits, std::span<float> values) {
  if (bits <= 0 || bits >= 24) return;
  const uint32_t half = uint32_t{1} << (23 - bits), mask = ~((half << 1) - 1);
  for (float& value : values) {
    value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + half) & mask);
  }
}

inline void KeepBits(int bits, std::span<double> values) {
  if (bits <= 0 || bits >= 24) return;
  for (double& value : values) {
    float narrow = static_cast<float>(value);
    KeepBits(bits, std::span(&narrow, 1));
    value = narrow;
  }
}

template <class Real>
Real RoundTo(kernel::DType dtype, Real value) {
  const auto narrow = static_cast<float>(value);
  if (dtype == kernel::DType::kBf16)
    return static_cast<Real>(kernel::ToFloat(kernel::ToBFloat16(narrow)));
  if (dtype == kernel::DType::kF16)
    return static_cast<Real>(kernel::ToFloat(kernel::ToFloat16(narrow)));
  return value;
}

}  // namespace plumbline::fuzz
