// SPDX-License-Identifier: Apache-2.0
//
// The element types of the operator, and the two 16-bit floats that the language lacks.
//
// bf16 has fp32's 8 exponent bits and 7 fraction bits; fp16 is IEEE 754 binary16. Both structs hold
// bits only: widening to float is exact for every one of the 65 536 patterns (a NaN keeps its payload
// bits and becomes quiet), narrowing rounds to nearest, ties to even, and overflows to infinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumbline::kernel {

enum class DType : uint8_t { kBf16, kF16, kF32, kI32, kI64 };

// Bytes of one element.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
  }
  return 0;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kF16 || dtype == DType::kF32;
}

// "bf16", "fp16", "fp32", "int32", "int64".
std::string_view Name(DType dtype);

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

float ToFloat(BFloat16 value);
float ToFloat(Float16 value);
BFloat16 ToBFloat16(float value);
Float16 ToFloat16(float value);

}  // namespace plumbline::kernel
