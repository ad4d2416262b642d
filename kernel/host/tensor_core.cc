// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/tensor_core.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernel/host/tiling.h"

#include "kernel/host/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/host/tensor_core.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"

#ifndef PLUMBLINE_KERNEL_HOST_TENSOR_CORE_ONCE
#define PLUMBLINE_KERNEL_HOST_TENSOR_CORE_ONCE
namespace plumbline::kernel::host {

enum class Plane : uint8_t { kWhole, kHigh, kMiddle, kLow };

// The part of an operand's elements that is read, and their format.
struct Reading {
  Plane plane;
  int32_t least_exponent;  // of the format
};

inline constexpr int32_t kFractionBits = 25;  // kept below the largest exponent
inline constexpr int32_t kLeastAlignment = -133;
inline constexpr int32_t kNoExponent = -10000;  // of a zero: below that of every product
inline constexpr int64_t kBlock = kTensorCoreBlock;

}  // namespace plumbline::kernel::host
#endif  // PLUMBLINE_KERNEL_HOST_TENSOR_CORE_ONCE

HWY_BEFORE_NAMESPACE();
namespace plumbline::kernel::host {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kPanel>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Vec = hn::Vec<Floats>;
using IntVec = hn::Vec<Ints>;
constexpr Floats kFloats;
constexpr Ints kInts;
constexpr Words kWords;
constexpr int64_t kVecLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

HWY_INLINE IntVec Bits(Vec x) { return hn::BitCast(kInts, x); }
HWY_INLINE Vec FromBits(IntVec bits) { return hn::BitCast(kFloats, bits); }
HWY_INLINE IntVec Magnitude(Vec x) { return hn::And(Bits(x), hn::Set(kInts, 0x7fffffff)); }
HWY_INLINE Vec PowerOfTwo(IntVec exponent) {
  return FromBits(hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(kInts, 127))));
}

// A number as significand and exponent: significand in (-2, 2), below 1 in magnitude only where the
// number is subnormal; a zero, an infinity or a NaN has significand 0 and kNoExponent.
struct Parts {
  Vec significand;
  IntVec exponent;
};
HWY_INLINE Parts Split(Vec x, int32_t least_exponent) {
  const IntVec magnitude = Magnitude(x);
  const auto none =
      hn::Or(hn::Eq(magnitude, hn::Zero(kInts)), hn::Gt(magnitude, hn::Set(kInts, 0x7f7fffff)));
  const auto subnormal = hn::Lt(magnitude, hn::Set(kInts, (least_exponent + 127) << 23));
  const Vec normal = FromBits(hn::Or(hn::And(Bits(x), hn::Set(kInts, static_cast<int32_t>(0x807fffff))),
                                     hn::Set(kInts, 0x3f800000)));
  const Vec scaled = hn::Mul(x, PowerOfTwo(hn::Set(kInts, -least_exponent)));
  const IntVec exponent = hn::Sub(hn::ShiftRight<23>(magnitude), hn::Set(kInts, 127));
  const Vec significand = hn::IfThenElse(hn::RebindMask(kFloats, subnormal), scaled, normal);
  return {hn::IfThenZeroElse(hn::RebindMask(kFloats, none), significand),
          hn::IfThenElse(none, hn::Set(kInts, kNoExponent),
                         hn::IfThenElse(subnormal, hn::Set(kInts, least_exponent), exponent))};
}

HWY_INLINE auto Finite(Vec x) {
  return hn::RebindMask(kFloats, hn::Lt(Magnitude(x), hn::Set(kInts, 0x7f800000)));
}

// Rounds to the nearest bf16, ties to even, and to the largest where that would be infinite.
HWY_INLINE Vec NearestBFloat16(Vec x) {
  const IntVec bits = Bits(x);
  const IntVec odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kInts, 1));
  const IntVec nearest = hn::And(hn::Add(bits, hn::Add(odd, hn::Set(kInts, 0x7fff))),
                                 hn::Set(kInts, static_cast<int32_t>(0xffff0000)));
  const IntVec infinite = hn::Set(kInts, 0x7f800000);
  const auto over = hn::Eq(hn::And(nearest, hn::Set(kInts, 0x7fffffff)), infinite);
  // Subtracts one unit in the last place of bf16.
  return FromBits(hn::IfThenElse(over, hn::Sub(nearest, hn::Set(kInts, 0x10000)), nearest));
}

HWY_INLINE Vec TakePlane(Vec x, Plane plane) {
  if (plane == Plane::kWhole) return x;
  const Vec finite = hn::IfThenElseZero(Finite(x), x);
  const Vec high = NearestBFloat16(finite);
  if (plane == Plane::kHigh) return high;
  const Vec below_high = hn::Sub(finite, high);
  const Vec middle = NearestBFloat16(below_high);
  if (plane == Plane::kMiddle) return middle;
  return NearestBFloat16(hn::Sub(below_high, middle));
}

// 16 vectors of 16 elements, split into significands and exponents: those of a panel, or of 16 rows.
struct Operand {
  alignas(64) float significand[kBlock][kPanel];
  alignas(64) int32_t exponent[kBlock][kPanel];
  alignas(64) float sign[kBlock][kPanel];  // -1, 0 or 1 for finite elements; others as they are
  bool special;                            // an element is infinite or NaN

  // Reads line i from 16 elements.
  HWY_INLINE void ReadLine(int64_t i, const float* from, const Reading& reading) {
    for (int64_t j = 0; j < kPanel; j += kVecLanes) {
      const Vec x = hn::LoadU(kFloats, from + j);
      const Parts parts = Split(TakePlane(x, reading.plane), reading.least_exponent);
      hn::Store(parts.significand, kFloats, significand[i] + j);
      hn::Store(parts.exponent, kInts, exponent[i] + j);
      const auto finite = Finite(x);
      special = special || !hn::AllTrue(kFloats, finite);
      const Vec unit =
          hn::IfThenZeroElse(hn::Eq(x, hn::Zero(kFloats)), hn::CopySign(hn::Set(kFloats, 1.0f), x));
      hn::Store(hn::IfThenElse(finite, unit, x), kFloats, sign[i] + j);
    }
  }
};

// Returns x 2^exponent in units of 2^(E - 25), truncated; shift = 25 - E. Powers below 2^-32 are raised
// to it: the term still truncates to 0, and the power stays a normal number.
HWY_INLINE IntVec Align(Vec x, IntVec exponent, IntVec shift) {
  const IntVec power = hn::Max(hn::Add(exponent, shift), hn::Set(kInts, -32));
  return hn::ConvertTo(kInts, hn::Mul(x, PowerOfTwo(power)));
}

// Returns (products + accumulator) 2^(E - 25), truncated to fp32. The sum of the two may need 33 bits:
// 16 products below 4 and an accumulator below 2, each times 2^25.
HWY_INLINE Vec Truncated(IntVec products, IntVec accumulator, IntVec e) {
  const IntVec carry = hn::And(hn::And(products, accumulator), hn::Set(kInts, 1));
  const IntVec half =
      hn::Add(hn::Add(hn::ShiftRight<1>(products), hn::ShiftRight<1>(accumulator)), carry);
  const auto sign = hn::BitCast(kWords, hn::BroadcastSignBit(half));
  const auto sum = hn::Add(hn::BitCast(kWords, products), hn::BitCast(kWords, accumulator));
  auto magnitude = hn::Sub(hn::Xor(sum, sign), sign);
  // Clears the bits below 2^-149.
  const IntVec lost = hn::Max(hn::Sub(hn::Set(kInts, kFractionBits - 149), e), hn::Zero(kInts));
  magnitude = hn::And(magnitude, hn::Shl(hn::Set(kWords, 0xffffffffu), hn::BitCast(kWords, lost)));
  // Clears the bits below the top 24.
  auto above = hn::ShiftRight<24>(magnitude);
  above = hn::Or(above, hn::ShiftRight<1>(above));
  above = hn::Or(above, hn::ShiftRight<2>(above));
  above = hn::Or(above, hn::ShiftRight<4>(above));
  magnitude = hn::AndNot(above, magnitude);
  // The rest is exact but for an overflow: 24 bits, a multiple of 2^-149.
  const Vec high = hn::ConvertTo(kFloats, hn::BitCast(kInts, hn::ShiftRight<16>(magnitude)));
  const Vec low =
      hn::ConvertTo(kFloats, hn::BitCast(kInts, hn::And(magnitude, hn::Set(kWords, 0xffffu))));
  const Vec whole = hn::Add(hn::Mul(high, hn::Set(kFloats, 65536.0f)), low);
  const IntVec scale = hn::Sub(e, hn::Set(kInts, kFractionBits));
  const IntVec first = hn::ShiftRight<1>(scale);
  const Vec value = hn::Mul(hn::Mul(whole, PowerOfTwo(first)), PowerOfTwo(hn::Sub(scale, first)));
  const Vec negative = hn::BitCast(
      kFloats, hn::And(hn::BitCast(kInts, sign), hn::Set(kInts, static_cast<int32_t>(0x80000000))));
  return hn::IfThenElse(hn::Eq(value, hn::Zero(kFloats)), value, hn::Or(value, negative));
}

// Adds one block of one row and one panel. The row's elements are column `row` of a, so that 16 rows
// are read in the same way as a panel.
template <bool kSpecial>
HWY_INLINE void BlockOfRow(const Operand& a, const Operand& b, int64_t line, float* c) {
  for (int64_t j = 0; j < kPanel; j += kVecLanes) {
    const Vec before = hn::LoadU(kFloats, c + j);
    const Parts held = Split(before, -126);
    IntVec largest = held.exponent;
    IntVec exponent[kBlock];
    PLUMBLINE_UNROLL
    for (int64_t k = 0; k < kBlock; ++k) {
      exponent[k] = hn::Add(hn::Set(kInts, a.exponent[line][k]), hn::Load(kInts, b.exponent[k] + j));
      largest = hn::Max(largest, exponent[k]);
    }
    const IntVec e = hn::Max(largest, hn::Set(kInts, kLeastAlignment));  // E of the block
    const IntVec shift = hn::Sub(hn::Set(kInts, kFractionBits), e);
    IntVec products = hn::Zero(kInts);
    Vec special = hn::IfThenZeroElse(Finite(before), before);
    PLUMBLINE_UNROLL
    for (int64_t k = 0; k < kBlock; ++k) {
      const Vec product =
          hn::Mul(hn::Set(kFloats, a.significand[line][k]), hn::Load(kFloats, b.significand[k] + j));
      products = hn::Add(products, Align(product, exponent[k], shift));
      if constexpr (kSpecial) {
        special = hn::Add(special,
                          hn::Mul(hn::Set(kFloats, a.sign[line][k]), hn::Load(kFloats, b.sign[k] + j)));
      }
    }
    const Vec sum = Truncated(products, Align(held.significand, held.exponent, shift), e);
    const Vec nan = FromBits(hn::Set(kInts, 0x7fffffff));
    const Vec result =
        hn::IfThenElse(Finite(special), sum, hn::IfThenElse(hn::IsNaN(special), nan, special));
    hn::StoreU(result, kFloats, c + j);
  }
}

void Products(const DotBlock& block, const Reading& read_a, const Reading& read_b, bool specials) {
  // A panel is read once for the rows of a work item.
  constexpr int64_t kGroups = kRowBlock / kBlock;
  Operand a[kGroups], b;
  alignas(64) float line[kPanel];
  for (int64_t row = 0; row < block.rows; row += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, block.rows - row);
    for (int64_t k = 0; k < block.depth; k += kBlock) {
      const int64_t depth = std::min(kBlock, block.depth - k);
      for (Operand& group : a) group.special = false;
      for (int64_t r = 0; r < rows; ++r) {
        const float* const from = block.a + (row + r) * block.a_stride + k;
        if (depth < kBlock) std::fill(std::copy_n(from, depth, line), line + kBlock, 0.0f);
        a[r / kBlock].ReadLine(r % kBlock, depth < kBlock ? line : from, read_a);
      }
      for (int64_t panel = 0; panel < block.panels; ++panel) {
        const float* const from = block.b + (panel * block.depth + k) * kPanel;
        b.special = false;
        std::fill_n(line, kPanel, 0.0f);
        for (int64_t i = 0; i < kBlock; ++i) {
          b.ReadLine(i, i < depth ? from + i * kPanel : line, read_b);
        }
        for (int64_t r = 0; r < rows; ++r) {
          const Operand& group = a[r / kBlock];
          float* const c = block.c + (row + r) * block.c_stride + panel * kPanel;
          if (k == 0 && !block.accumulate) std::fill_n(c, kPanel, 0.0f);
          if (specials && (group.special || b.special)) {
            BlockOfRow<true>(group, b, r % kBlock, c);
          } else {
            BlockOfRow<false>(group, b, r % kBlock, c);
          }
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::kernel::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::kernel::host {

HWY_EXPORT(Products);

namespace {

struct Pass {
  Plane a, b;
};
constexpr std::array kPasses = {
    Pass{Plane::kLow, Plane::kHigh},    Pass{Plane::kMiddle, Plane::kMiddle},
    Pass{Plane::kHigh, Plane::kLow},    Pass{Plane::kMiddle, Plane::kHigh},
    Pass{Plane::kHigh, Plane::kMiddle}, Pass{Plane::kHigh, Plane::kHigh}};

}  // namespace

int TensorCorePasses(DType operands) {
  return operands == DType::kF32 ? static_cast<int>(kPasses.size()) : 1;
}

void TensorCoreProducts(const DotBlock& block, DType operands, int pass) {
  const int32_t least = operands == DType::kF16 ? -14 : -126;
  Pass planes = {Plane::kWhole, Plane::kWhole};
  if (operands == DType::kF32) planes = kPasses[static_cast<size_t>(pass)];
  HWY_DYNAMIC_DISPATCH(Products)
  (block, {planes.a, least}, {planes.b, least}, pass + 1 == TensorCorePasses(operands));
}

}  // namespace plumbline::kernel::host
#endif  // HWY_ONCE
