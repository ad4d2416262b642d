// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/narrow.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace plumbline::fuzz {
namespace {

constexpr uint32_t kInfinity = 0x7f80'0000;

uint32_t Magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fff'ffff; }

// Magnitudes here are finite: a carry out of the largest gives infinity, as it should.
uint16_t FiniteToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t FiniteToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fff'ffff;
  constexpr uint32_t kRebias = uint32_t{112} << 23;
  constexpr uint32_t kLeastNormal = uint32_t{113} << 23, kOverflow = uint32_t{143} << 23;
  const uint32_t normal = (magnitude - kRebias + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Below the least normal number: 1/2 has its last bit at 2^-24, so the addition rounds there.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t in_range = magnitude < kLeastNormal ? subnormal : normal;
  const uint32_t narrowed = magnitude >= kOverflow ? 0x7c00 : in_range;
  return static_cast<uint16_t>(((bits >> 16) & 0x8000) | narrowed);
}

template <class Convert>
void Each(std::span<const float> values, std::byte* to, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = convert(values[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

uint16_t Half(const std::byte* from, size_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, from + 2 * i, 2);
  return bits;
}

float WidenFloat16(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fff;
  // Subnormal numbers, infinities and NaN are rare.
  if (magnitude - 0x400 >= 0x7800) return kernel::ToFloat(kernel::Float16{bits});
  return std::bit_cast<float>(uint32_t{bits & 0x8000u} << 16 |
                              ((magnitude << 13) + (uint32_t{112} << 23)));
}

// Gives kernel::ToFloat's values: a call of it for each element was 8 % of plumb check's time.
float WidenBFloat16(uint16_t bits) {
  constexpr uint32_t kQuietBit = 0x0040'0000;
  const uint32_t wide = uint32_t{bits} << 16;
  return std::bit_cast<float>((wide & 0x7fff'ffff) > kInfinity ? wide | kQuietBit : wide);
}

}  // namespace

void Widen(const std::byte* from, kernel::DType dtype, std::span<float> values) {
  if (dtype == kernel::DType::kF32) {
    if (!values.empty()) std::memcpy(values.data(), from, values.size_bytes());
  } else if (dtype == kernel::DType::kF16) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = WidenFloat16(Half(from, i));
  } else {
    for (size_t i = 0; i < values.size(); ++i) values[i] = WidenBFloat16(Half(from, i));
  }
}

void Narrow(std::span<const float> values, kernel::DType dtype, std::byte* to) {
  if (dtype == kernel::DType::kF32) {
    if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
    return;
  }
  uint32_t largest = 0;
  for (const float value : values) largest = Magnitude(value) > largest ? Magnitude(value) : largest;
  const bool finite = largest < kInfinity, bf16 = dtype == kernel::DType::kBf16;
  if (finite && bf16) {
    Each(values, to, FiniteToBFloat16);
  } else if (finite) {
    Each(values, to, FiniteToFloat16);
  } else if (bf16) {
    Each(values, to, [](float value) { return kernel::ToBFloat16(value).bits; });
  } else {
    Each(values, to, [](float value) { return kernel::ToFloat16(value).bits; });
  }
}

}  // namespace plumbline::fuzz
