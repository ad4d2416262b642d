// SPDX-License-Identifier: Apache-2.0

#include "fuzz/baseline/product.h"

#include <algorithm>
#include <cstdint>

// Vector sets without a fused multiply-add are no faster than the scalar code, and those whose vectors
// have no size at compile time cannot be members of an array.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fuzz/baseline/product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::fuzz {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kProductColumns>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Vec = hn::Vec<Floats>;
using IntVec = hn::Vec<Ints>;
constexpr Floats kFloats;
constexpr Ints kInts;
constexpr Words kWords;
constexpr int64_t kVecLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));
constexpr int64_t kVectors = kProductColumns / kVecLanes;
constexpr int64_t kRowGroup = 6;  // rows whose sums stay in registers

template <int64_t kRows>
HWY_INLINE void ChainOfRows(const ProductBlock& block, int64_t row) {
  Vec sum[kRows][kVectors];
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const float* const c = block.c + (row + r) * block.c_stride + v * kVecLanes;
      sum[r][v] = block.accumulate ? hn::LoadU(kFloats, c) : hn::Zero(kFloats);
    }
  }
  for (int64_t k = 0; k < block.depth; ++k) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const Vec b = hn::LoadU(kFloats, block.b + k * kProductColumns + v * kVecLanes);
      for (int64_t r = 0; r < kRows; ++r) {
        const Vec a = hn::Set(kFloats, block.a[(row + r) * block.a_stride + k]);
        sum[r][v] = hn::MulAdd(a, b, sum[r][v]);
      }
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], kFloats, block.c + (row + r) * block.c_stride + v * kVecLanes);
    }
  }
}

void Chain(const ProductBlock& block) {
  int64_t row = 0;
  for (; row + kRowGroup <= block.rows; row += kRowGroup) ChainOfRows<kRowGroup>(block, row);
  for (; row < block.rows; ++row) ChainOfRows<1>(block, row);
}

HWY_INLINE Vec FromBits(IntVec bits) { return hn::BitCast(kFloats, bits); }
// Returns the power of two below |x|; 0 for a subnormal.
HWY_INLINE Vec PowerOf(Vec x) {
  return FromBits(hn::And(hn::BitCast(kInts, x), hn::Set(kInts, 0x7f800000)));
}

// Returns the sum of both, its lowest bits cleared so that 24 are left, as a float.
HWY_INLINE Vec TruncatedSum(IntVec a, IntVec b) {
  // The sum may need 33 bits, its sign and magnitude do not.
  const IntVec sign = hn::BroadcastSignBit(hn::Add(hn::ShiftRight<1>(a), hn::ShiftRight<1>(b)));
  const auto sum = hn::Add(hn::BitCast(kWords, a), hn::BitCast(kWords, b));
  const auto flip = hn::BitCast(kWords, sign);
  auto magnitude = hn::Sub(hn::Xor(sum, flip), flip);
  auto above = hn::ShiftRight<24>(magnitude);
  above = hn::Or(above, hn::ShiftRight<1>(above));
  above = hn::Or(above, hn::ShiftRight<2>(above));
  above = hn::Or(above, hn::ShiftRight<4>(above));
  magnitude = hn::AndNot(above, magnitude);
  const Vec value = hn::ConvertTo(kFloats, hn::BitCast(kInts, magnitude));
  return FromBits(hn::Or(hn::BitCast(kInts, value),
                         hn::And(sign, hn::Set(kInts, static_cast<int32_t>(0x80000000)))));
}

// Adds one block of products to one row. `a` and `powers` of a: [count]; b and its powers:
// [count][kProductColumns].
HWY_INLINE void AlignedBlock(const float* a, const float* a_powers, const float* b,
                             const float* b_powers, int64_t count, int fraction_bits, float* c) {
  for (int64_t j = 0; j < kProductColumns; j += kVecLanes) {
    const Vec before = hn::LoadU(kFloats, c + j);
    Vec largest = PowerOf(before);
    for (int64_t k = 0; k < count; ++k) {
      largest = hn::Max(largest, hn::Mul(hn::Set(kFloats, a_powers[k]),
                                         hn::LoadU(kFloats, b_powers + k * kProductColumns + j)));
    }
    const IntVec least = hn::Set(kInts, 27 << 23);  // 2^-100
    const IntVec power = hn::Max(hn::BitCast(kInts, largest), least);
    const IntVec bits = hn::Set(kInts, fraction_bits << 23);
    const Vec unit = FromBits(hn::Sub(power, bits));  // 2^(E - fraction_bits)
    const Vec inverse = FromBits(hn::Add(hn::Sub(hn::Set(kInts, 254 << 23), power), bits));
    // Two sums, since 16 products below 4 in units of 2^-25 need 32 bits.
    IntVec sums[2] = {hn::ConvertTo(kInts, hn::Mul(before, inverse)), hn::Zero(kInts)};
    for (int64_t k = 0; k < count; ++k) {
      const Vec product =
          hn::Mul(hn::Set(kFloats, a[k]), hn::LoadU(kFloats, b + k * kProductColumns + j));
      sums[k & 1] = hn::Add(sums[k & 1], hn::ConvertTo(kInts, hn::Mul(product, inverse)));
    }
    hn::StoreU(hn::Mul(TruncatedSum(sums[0], sums[1]), unit), kFloats, c + j);
  }
}

HWY_INLINE void Powers(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kVecLanes) {
    hn::StoreU(PowerOf(hn::LoadU(kFloats, from + i)), kFloats, to + i);
  }
}

void Aligned(const ProductBlock& block, int64_t step, int fraction_bits) {
  constexpr int64_t kMost = 32;
  alignas(64) float b_powers[kMost * kProductColumns], a[kMost], a_powers[kMost];
  for (int64_t k = 0; k < block.depth; k += step) {
    const int64_t count = std::min(step, block.depth - k);
    const float* const b = block.b + k * kProductColumns;
    Powers(b, count * kProductColumns, b_powers);
    for (int64_t r = 0; r < block.rows; ++r) {
      std::fill(std::copy_n(block.a + r * block.a_stride + k, count, a), a + kMost, 0.0f);
      Powers(a, kMost, a_powers);
      float* const c = block.c + r * block.c_stride;
      if (k == 0 && !block.accumulate) std::fill_n(c, kProductColumns, 0.0f);
      AlignedBlock(a, a_powers, b, b_powers, count, fraction_bits, c);
    }
  }
  if (block.depth == 0 && !block.accumulate) {
    for (int64_t r = 0; r < block.rows; ++r)
      std::fill_n(block.c + r * block.c_stride, kProductColumns, 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::fuzz
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::fuzz {

HWY_EXPORT(Chain);
HWY_EXPORT(Aligned);

void Multiply(const Dot& dot, const ProductBlock& block) {
  constexpr int kSignificand = 23;
  if (dot.kind == Dot::Kind::kChain) {
    HWY_DYNAMIC_DISPATCH(Chain)(block);
  } else {
    HWY_DYNAMIC_DISPATCH(Aligned)(block, dot.block, kSignificand + dot.extra_bits);
  }
}

}  // namespace plumbline::fuzz
#endif  // HWY_ONCE
