// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/probe/operands.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plumbline::fuzz {
namespace {

using kernel::BFloat16, kernel::DType, kernel::Float16, kernel::ToBFloat16, kernel::ToFloat,
    kernel::ToFloat16;

float RoundTo(DType dtype, float value) {
  if (dtype == DType::kBf16) return ToFloat(ToBFloat16(value));
  if (dtype == DType::kF16) return ToFloat(ToFloat16(value));
  return value;
}

int Below(OperandRandom* random, int count) {
  return static_cast<int>(random->Next() % static_cast<uint64_t>(count));
}

float Sign(OperandRandom* random) { return random->Next() & 1 ? -1.0f : 1.0f; }

// Draws any finite pattern.
float AnyFinite(DType dtype, OperandRandom* random) {
  for (;;) {
    float x = 0;
    const auto bits = static_cast<uint16_t>(random->Next());
    if (dtype == DType::kBf16) x = ToFloat(BFloat16{bits});
    if (dtype == DType::kF16) x = ToFloat(Float16{bits});
    if (dtype == DType::kF32) x = std::bit_cast<float>(static_cast<uint32_t>(random->Next()));
    if (std::isfinite(x)) return x;
  }
}

// Draws a number with this exponent and any significand that dtype has, clamped to its range.
float WithExponent(DType dtype, int exponent, OperandRandom* random) {
  const float significand = 1 + static_cast<float>(random->Next() >> 41) * 0x1p-23f;
  const float x = Sign(random) * std::ldexp(significand, exponent);
  const float rounded = RoundTo(dtype, x);
  return std::isfinite(rounded) ? rounded : RoundTo(dtype, x / 2);
}

float AnySpecial(DType dtype, OperandRandom* random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (Below(random, 24)) {
    case 0:
      return Sign(random) * kInfinity;
    case 1:
      return Below(random, 4) == 0 ? std::numeric_limits<float>::quiet_NaN() : 0;
    case 2:
      return 0;
    default:
      return AnyFinite(dtype, random);
  }
}

void DrawLost(DType dtype, int64_t depth, OperandRandom* random, float* a, float* b) {
  const bool negative = random->Next() % 2 == 0;
  for (int64_t k = 0; k < depth; ++k) {
    const int total = dtype == DType::kF16 ? -48 : -144 - Below(random, 13);
    const int first = dtype == DType::kF16 ? -24 : -82 + Below(random, 20);
    a[k] = RoundTo(dtype, std::ldexp(negative ? -1.5f : 1.5f, first));
    b[k] = RoundTo(dtype, std::ldexp(1.25f, total - first));
    if (Below(random, 8) != 0)
      (Below(random, 2) == 0 ? a : b)[k] = Below(random, 2) == 0 ? 0.0f : -0.0f;
  }
}

}  // namespace

const char* NameOf(DataKind kind) {
  constexpr const char* kNames[kDataKinds] = {"bell",        "patterns", "special",   "spread",
                                              "cancelling",  "like",     "subnormal", "tiny-dense",
                                              "tiny-sparse", "huge",     "lost"};
  return kNames[static_cast<int>(kind)];
}

void DrawOperands(DType dtype, DataKind kind, int64_t depth, OperandRandom* random, float* a,
                  float* b) {
  if (kind == DataKind::kLost) return DrawLost(dtype, depth, random, a, b);
  const bool half = dtype == DType::kF16;
  const int least = half ? -14 : -126;
  for (int64_t k = 0; k < depth; ++k) {
    switch (kind) {
      case DataKind::kBell:
        a[k] = RoundTo(dtype, random->Bell());
        b[k] = RoundTo(dtype, random->Bell());
        break;
      case DataKind::kPatterns:
        a[k] = AnyFinite(dtype, random);
        b[k] = AnyFinite(dtype, random);
        break;
      case DataKind::kSpecial:
        a[k] = AnySpecial(dtype, random);
        b[k] = AnySpecial(dtype, random);
        break;
      case DataKind::kSpread:
        a[k] = WithExponent(dtype, Below(random, half ? 29 : 31) - 14, random);
        b[k] = WithExponent(dtype, Below(random, half ? 29 : 31) - 14, random);
        break;
      case DataKind::kCancelling:
        if (k % 2 == 0 || Below(random, 4) == 0) {
          a[k] = WithExponent(dtype, Below(random, 24) - 12, random);
          b[k] = WithExponent(dtype, Below(random, 24) - 12, random);
        } else {  // the negated term before it
          a[k] = -a[k - 1];
          b[k] = b[k - 1];
        }
        break;
      case DataKind::kLike: {
        // The numbers grow from block to block, so that the accumulator has the products' exponent.
        const int block = static_cast<int>(k / 16);
        const float nearly_two = dtype == DType::kF16 ? 0x1.ffcp0f : 0x1.fep0f;
        const float sign = k == 0 ? Sign(random) : std::copysign(1.0f, a[0]);
        const float less = Below(random, 8) == 0 ? 0x1p-7f : 0;
        a[k] = sign * std::ldexp(nearly_two - less, 3 * block);
        b[k] = std::ldexp(nearly_two, 2 * block);
        break;
      }
      case DataKind::kSubnormal:
        a[k] = WithExponent(dtype, least - Below(random, 12), random);
        b[k] = WithExponent(dtype, half ? Below(random, 25) - 12 : Below(random, 120), random);
        break;
      case DataKind::kTinyDense:
      case DataKind::kTinySparse: {
        // fp16 has no products this small, so its least ones are drawn.
        const int total = half ? Below(random, 14) - 48 : -120 - Below(random, 40);
        const int first = half ? -14 - Below(random, 11) : total / 2 + Below(random, 20) - 10;
        a[k] = WithExponent(dtype, first, random);
        b[k] = WithExponent(dtype, total - first, random);
        if (kind == DataKind::kTinySparse && Below(random, 3) == 0) (k % 2 == 0 ? a : b)[k] = 0;
        break;
      }
      case DataKind::kHuge:
        a[k] = WithExponent(dtype, half ? 15 : 60 + Below(random, 4), random);
        b[k] = WithExponent(dtype, half ? 15 : 60 + Below(random, 5), random);
        if (dtype == DType::kF32 && Below(random, 4) == 0) {  // beyond the largest bf16
          a[k] = Sign(random) *
                 (std::numeric_limits<float>::max() - std::ldexp(1.0f, 104 + Below(random, 16)));
          b[k] = WithExponent(dtype, -10, random);
        }
        break;
      case DataKind::kLost:
        break;  // drawn above
    }
  }
}

}  // namespace plumbline::fuzz
