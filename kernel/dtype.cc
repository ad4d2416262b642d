// SPDX-License-Identifier: Apache-2.0

#include "kernel/dtype.h"

#include <bit>
#include <iterator>

namespace plumbline::kernel {
namespace {

constexpr uint32_t kQuietBit = 0x0040'0000;
constexpr uint32_t kInfinity = 0x7f80'0000;

// Returns magnitude * 2^-shift rounded to the nearest integer, ties to even.
constexpr uint32_t ShiftRightToNearestEven(uint32_t magnitude, int shift) {
  const uint32_t half = uint32_t{1} << (shift - 1);
  const uint32_t odd = (magnitude >> shift) & 1;
  return (magnitude + half - 1 + odd) >> shift;
}

}  // namespace

std::string_view Name(DType dtype) {
  constexpr std::string_view kNames[] = {"bf16", "fp16", "fp32", "int32", "int64"};
  const auto i = static_cast<size_t>(dtype);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

float ToFloat(BFloat16 value) {
  uint32_t bits = uint32_t{value.bits} << 16;
  if ((bits & ~0x8000'0000) > kInfinity) bits |= kQuietBit;
  return std::bit_cast<float>(bits);
}

float ToFloat(Float16 value) {
  const uint32_t sign = (uint32_t{value.bits} & 0x8000) << 16;
  const uint32_t magnitude = uint32_t{value.bits} & 0x7fff;
  const uint32_t exponent = magnitude >> 10;
  const uint32_t fraction = magnitude & 0x3ff;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | kInfinity | (fraction << 13) | (fraction != 0 ? kQuietBit : 0));
  }
  if (exponent != 0) return std::bit_cast<float>(sign | ((magnitude << 13) + (uint32_t{112} << 23)));
  // Subnormal: fraction * 2^-24, exact as a product of an integer and a power of two. No fp32 subnormal
  // takes part, so a caller's flush-to-zero mode cannot reach it.
  const float value_magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value_magnitude));
}

BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & ~0x8000'0000) > kInfinity) return {static_cast<uint16_t>((bits | kQuietBit) >> 16)};
  // The rounding acts on sign and magnitude, so a carry out of the fraction moves to the next binade
  // and, past the last one, to infinity.
  return {static_cast<uint16_t>(ShiftRightToNearestEven(bits, 16))};
}

Float16 ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fff'ffff;
  if (magnitude > kInfinity) {
    return {static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff))};
  }
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent > 15) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (exponent >= -14) {
    // The exponent is rebiased before rounding, so that a carry out of 65504's fraction gives infinity.
    const uint32_t rebiased = magnitude - (uint32_t{112} << 23);
    return {static_cast<uint16_t>(sign | ShiftRightToNearestEven(rebiased, 13))};
  }
  // Subnormal result: units of 2^-24. Below 2^-25 everything rounds to zero, and 2^-25 itself is a tie.
  if (exponent < -25) return {static_cast<uint16_t>(sign)};
  const uint32_t significand = (magnitude & 0x007f'ffff) | 0x0080'0000;
  const int shift = -1 - exponent;  // 14 for 2^-15 up to 24 for 2^-25
  return {static_cast<uint16_t>(sign | ShiftRightToNearestEven(significand, shift))};
}

}  // namespace plumbline::kernel
