// SPDX-License-Identifier: Apache-2.0

#include "fuzz/baseline/product.h"

#include <algorithm>
#include <cfenv>
#include <cstdint>

#include "oracle/numeric/highway.h"
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
HWY_INLINE void ChainOfRows(const ProductBlock<float>& block, int64_t row) {
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

void Chain(const ProductBlock<float>& block) {
  int64_t row = 0;
  for (; row + kRowGroup <= block.rows; row += kRowGroup) ChainOfRows<kRowGroup>(block, row);
  for (; row < block.rows; ++row) ChainOfRows<1>(block, row);
}

void ExactChain(const ProductBlock<double>& block) {
  using Doubles = hn::CappedTag<double, 8>;
  constexpr Doubles kDoubles;
  constexpr hn::Rebind<float, Doubles> kHalf;
  constexpr int64_t kWidth = static_cast<int64_t>(hn::MaxLanes(Doubles()));
  for (int64_t r = 0; r < block.rows; ++r) {
    const double* const a = block.a + r * block.a_stride;
    for (int64_t j = 0; j < kProductColumns; j += 2 * kWidth) {
      double* const c = block.c + r * block.c_stride + j;
      // Two chains hide some of the latency of an addition.
      auto first = block.accumulate ? hn::LoadU(kDoubles, c) : hn::Zero(kDoubles);
      auto second = block.accumulate ? hn::LoadU(kDoubles, c + kWidth) : hn::Zero(kDoubles);
      for (int64_t k = 0; k < block.depth; ++k) {
        const float* const b = block.b + k * kProductColumns + j;
        const auto factor = hn::Set(kDoubles, a[k]);
        first = hn::MulAdd(factor, hn::PromoteTo(kDoubles, hn::LoadU(kHalf, b)), first);
        second = hn::MulAdd(factor, hn::PromoteTo(kDoubles, hn::LoadU(kHalf, b + kWidth)), second);
      }
      hn::StoreU(first, kDoubles, c);
      hn::StoreU(second, kDoubles, c + kWidth);
    }
  }
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

// Adds one block of kCount products to one row. a and its powers of two: [kCount]; b and its powers:
// [kCount][kProductColumns].
template <int64_t kCount>
HWY_INLINE void AlignedBlock(const float* a, const float* a_powers, const float* b,
                             const float* b_powers, int fraction_bits, float* c) {
  const IntVec least = hn::Set(kInts, 27 << 23);  // 2^-100
  const IntVec bits = hn::Set(kInts, fraction_bits << 23);
  for (int64_t j = 0; j < kProductColumns; j += kVecLanes) {
    const Vec before = hn::LoadU(kFloats, c + j);
    Vec largest = PowerOf(before);
    PLUMBLINE_UNROLL
    for (int64_t k = 0; k < kCount; ++k) {
      largest = hn::Max(largest, hn::Mul(hn::Set(kFloats, a_powers[k]),
                                         hn::Load(kFloats, b_powers + k * kProductColumns + j)));
    }
    const IntVec power = hn::Max(hn::BitCast(kInts, largest), least);
    const Vec unit = FromBits(hn::Sub(power, bits));  // 2^(E - fraction_bits)
    const Vec inverse = FromBits(hn::Add(hn::Sub(hn::Set(kInts, 254 << 23), power), bits));
    // Two sums, since 16 products below 4 in units of 2^-25 need 32 bits.
    IntVec even = hn::ConvertTo(kInts, hn::Mul(before, inverse)), odd = hn::Zero(kInts);
    PLUMBLINE_UNROLL
    for (int64_t k = 0; k < kCount; ++k) {
      const Vec product =
          hn::Mul(hn::Set(kFloats, a[k]), hn::LoadU(kFloats, b + k * kProductColumns + j));
      const IntVec aligned = hn::ConvertTo(kInts, hn::Mul(product, inverse));
      if (k % 2 == 0) {
        even = hn::Add(even, aligned);
      } else {
        odd = hn::Add(odd, aligned);
      }
    }
    hn::StoreU(hn::Mul(TruncatedSum(even, odd), unit), kFloats, c + j);
  }
}

HWY_INLINE void Powers(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kVecLanes) {
    hn::StoreU(PowerOf(hn::LoadU(kFloats, from + i)), kFloats, to + i);
  }
}

constexpr int64_t kChunkRows = 16, kChunkDepth = 256;  // a's part in one go: 16 KiB, in L1

// Adds a chunk: `depth` products, the last block filled up with zeros, which are aligned to nothing.
template <int64_t kStep>
void AlignedChunk(const float* a, int64_t a_stride, const float* b, int64_t depth, int64_t rows,
                  int fraction_bits, float* c, int64_t c_stride) {
  alignas(64) float part[kChunkRows * kChunkDepth], powers[kChunkRows * kChunkDepth];
  alignas(64) float b_powers[kStep * kProductColumns], last[kStep * kProductColumns];
  for (int64_t r = 0; r < rows; ++r) {
    float* const to = part + r * kChunkDepth;
    std::fill(std::copy_n(a + r * a_stride, depth, to), to + kChunkDepth, 0.0f);
    Powers(to, kChunkDepth, powers + r * kChunkDepth);
  }
  for (int64_t k = 0; k < depth; k += kStep) {
    const float* block = b + k * kProductColumns;
    if (const int64_t count = depth - k; count < kStep) {
      std::fill(std::copy_n(block, count * kProductColumns, last), last + kStep * kProductColumns,
                0.0f);
      block = last;
    }
    Powers(block, kStep * kProductColumns, b_powers);
    for (int64_t r = 0; r < rows; ++r) {
      AlignedBlock<kStep>(part + r * kChunkDepth + k, powers + r * kChunkDepth + k, block, b_powers,
                          fraction_bits, c + r * c_stride);
    }
  }
}

template <int64_t kStep>
void AlignedBy(const ProductBlock<float>& block, int fraction_bits) {
  for (int64_t r = 0; r < block.rows && !block.accumulate; ++r) {
    std::fill_n(block.c + r * block.c_stride, kProductColumns, 0.0f);
  }
  for (int64_t k = 0; k < block.depth; k += kChunkDepth) {
    for (int64_t r = 0; r < block.rows; r += kChunkRows) {
      AlignedChunk<kStep>(block.a + r * block.a_stride + k, block.a_stride,
                          block.b + k * kProductColumns, std::min(kChunkDepth, block.depth - k),
                          std::min(kChunkRows, block.rows - r), fraction_bits,
                          block.c + r * block.c_stride, block.c_stride);
    }
  }
}

// Blocks of another size than these are computed as the next smaller one, which truncates more often.
void Aligned(const ProductBlock<float>& block, int64_t step, int fraction_bits) {
  if (step >= 32) return AlignedBy<32>(block, fraction_bits);
  if (step >= 16) return AlignedBy<16>(block, fraction_bits);
  if (step >= 8) return AlignedBy<8>(block, fraction_bits);
  if (step >= 4) return AlignedBy<4>(block, fraction_bits);
  return AlignedBy<1>(block, fraction_bits);
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::fuzz
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::fuzz {

HWY_EXPORT(Chain);
HWY_EXPORT(Aligned);
HWY_EXPORT(ExactChain);

void Multiply(const Dot& dot, const ProductBlock<float>& block) {
  constexpr int kSignificand = 23;
  if (dot.kind == Dot::Kind::kChain) {
    HWY_DYNAMIC_DISPATCH(Chain)(block);
  } else if (dot.kind == Dot::Kind::kTowardZero) {
    // The compiler knows the operations of Chain as intrinsics alone, and moves none across the calls.
    const int before = std::fegetround();
    std::fesetround(FE_TOWARDZERO);
    HWY_DYNAMIC_DISPATCH(Chain)(block);
    std::fesetround(before);
  } else {
    HWY_DYNAMIC_DISPATCH(Aligned)(block, dot.block, kSignificand + dot.extra_bits);
  }
}

void Multiply(const Dot&, const ProductBlock<double>& block) {
  HWY_DYNAMIC_DISPATCH(ExactChain)(block);
}

// In blocks that stay in the first cache: line after line each write would be another cache line.
void MakePanel(const float* lines, int64_t depth, int64_t width, float* panel) {
  constexpr int64_t kBlock = 16;
  for (int64_t first = 0; first < depth; first += kBlock) {
    const int64_t last = std::min(depth, first + kBlock);
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t k = first; k < last; ++k) panel[k * kProductColumns + j] = lines[j * depth + k];
    }
  }
}

}  // namespace plumbline::fuzz
#endif  // HWY_ONCE
