// SPDX-License-Identifier: Apache-2.0

#include "oracle/numeric/pack.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "oracle/numeric/gemm.h"

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/numeric/pack.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::Rebind<float, Doubles>;
using Words = hn::Rebind<uint32_t, Doubles>;
using Halves = hn::Rebind<uint16_t, Doubles>;
using Bits = hn::RebindToUnsigned<Doubles>;
using Vec = hn::Vec<Doubles>;
constexpr Doubles kDoubles;
constexpr Floats kFloats;
constexpr Words kWords;
constexpr Halves kHalves;
constexpr Bits kBits;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Doubles()));
static_assert(kPanel % kLanes == 0);

struct Bf16Bits {
  uint16_t bits;
};
struct Fp16Bits {
  uint16_t bits;
};

HWY_INLINE Vec Widen(const float* p) { return hn::PromoteTo(kDoubles, hn::LoadU(kFloats, p)); }
HWY_INLINE Vec Widen(const Bf16Bits* p) {
  const auto halves = hn::LoadU(kHalves, reinterpret_cast<const uint16_t*>(p));
  const auto words = hn::ShiftLeft<16>(hn::PromoteTo(kWords, halves));
  return hn::PromoteTo(kDoubles, hn::BitCast(kFloats, words));
}
// The fields are moved to fp32's places, where the exponent is 112 too small. The product with 2^112
// corrects that, for subnormals too. An exponent of all ones must stay all ones.
HWY_INLINE Vec Widen(const Fp16Bits* p) {
  const auto words = hn::PromoteTo(kWords, hn::LoadU(kHalves, reinterpret_cast<const uint16_t*>(p)));
  const auto magnitude = hn::And(words, hn::Set(kWords, 0x7fffu));
  const auto scaled =
      hn::Mul(hn::BitCast(kFloats, hn::ShiftLeft<13>(magnitude)), hn::Set(kFloats, 0x1p112f));
  const auto special =
      hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(kWords, 0x7bffu)), hn::Set(kWords, 0x7f80'0000u));
  const auto sign = hn::ShiftLeft<16>(hn::And(words, hn::Set(kWords, 0x8000u)));
  return hn::PromoteTo(
      kDoubles, hn::BitCast(kFloats, hn::Or(hn::BitCast(kWords, scaled), hn::Or(special, sign))));
}

// Widens count raw elements to doubles. count is a multiple of kLanes.
template <class T>
HWY_INLINE void WidenRun(const T* from, int64_t count, double least, double* value, double* magnitude) {
  for (int64_t j = 0; j < count; j += kLanes) {
    const Vec x = Widen(from + j);
    hn::StoreU(x, kDoubles, value + j);
    if (magnitude == nullptr) continue;
    // 0 must stay 0 and a NaN a NaN; Max would replace both.
    const Vec absolute = hn::Abs(x);
    const auto low =
        hn::And(hn::Lt(absolute, hn::Set(kDoubles, least)), hn::Gt(absolute, hn::Zero(kDoubles)));
    hn::StoreU(hn::IfThenElse(low, hn::Set(kDoubles, least), absolute), kDoubles, magnitude + j);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Transposes 8 x 8 (16-bit) or 4 x 4 (32-bit) elements from rows `from_stride` apart to rows kPanel
// apart.
HWY_INLINE void TransposeTile(const uint16_t* from, int64_t from_stride, uint16_t* to) {
  const hn::Full128<uint16_t> d16;
  const hn::Full128<uint32_t> d32;
  const hn::Full128<uint64_t> d64;
  hn::Vec<decltype(d16)> row[8];
  for (int i = 0; i < 8; ++i) row[i] = hn::LoadU(d16, from + i * from_stride);
  hn::Vec<decltype(d32)> pair[8];
  for (int i = 0; i < 4; ++i) {
    pair[2 * i] = hn::BitCast(d32, hn::InterleaveLower(d16, row[2 * i], row[2 * i + 1]));
    pair[2 * i + 1] = hn::BitCast(d32, hn::InterleaveUpper(d16, row[2 * i], row[2 * i + 1]));
  }
  hn::Vec<decltype(d64)> quad[8];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      const auto a = pair[4 * half + i], b = pair[4 * half + 2 + i];
      quad[4 * half + 2 * i] = hn::BitCast(d64, hn::InterleaveLower(d32, a, b));
      quad[4 * half + 2 * i + 1] = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
    }
  }
  for (int i = 0; i < 4; ++i) {
    const auto low = hn::InterleaveLower(d64, quad[i], quad[4 + i]);
    const auto high = hn::InterleaveUpper(d64, quad[i], quad[4 + i]);
    hn::StoreU(hn::BitCast(d16, low), d16, to + (2 * i) * kPanel);
    hn::StoreU(hn::BitCast(d16, high), d16, to + (2 * i + 1) * kPanel);
  }
}
HWY_INLINE void TransposeTile(const uint32_t* from, int64_t from_stride, uint32_t* to) {
  const hn::Full128<uint32_t> d32;
  const hn::Full128<uint64_t> d64;
  hn::Vec<decltype(d32)> row[4];
  for (int i = 0; i < 4; ++i) row[i] = hn::LoadU(d32, from + i * from_stride);
  const auto a = hn::BitCast(d64, hn::InterleaveLower(d32, row[0], row[1]));
  const auto b = hn::BitCast(d64, hn::InterleaveUpper(d32, row[0], row[1]));
  const auto c = hn::BitCast(d64, hn::InterleaveLower(d32, row[2], row[3]));
  const auto e = hn::BitCast(d64, hn::InterleaveUpper(d32, row[2], row[3]));
  hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d64, a, c)), d32, to);
  hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d64, a, c)), d32, to + kPanel);
  hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d64, b, e)), d32, to + 2 * kPanel);
  hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d64, b, e)), d32, to + 3 * kPanel);
}

#else
template <class Raw>
HWY_INLINE void TransposeTile(const Raw* from, int64_t from_stride, Raw* to) {
  constexpr int kTile = sizeof(Raw) == 2 ? 8 : 4;
  for (int i = 0; i < kTile; ++i) {
    for (int k = 0; k < kTile; ++k) to[k * kPanel + i] = from[i * from_stride + k];
  }
}
#endif

// Packs a raw panel to[depth][kPanel] from a source whose depth is contiguous: whole tiles, then the
// remainder.
template <class Raw>
void GatherTransposed(const Raw* from, int64_t column_stride, int64_t depth, int64_t columns, Raw* to) {
  constexpr int64_t kTile = sizeof(Raw) == 2 ? 8 : 4;
  const int64_t tile_columns = columns / kTile * kTile, tile_depth = depth / kTile * kTile;
  for (int64_t j = 0; j < tile_columns; j += kTile) {
    for (int64_t k = 0; k < tile_depth; k += kTile) {
      TransposeTile(from + j * column_stride + k, column_stride, to + k * kPanel + j);
    }
    for (int64_t k = tile_depth; k < depth; ++k) {
      for (int64_t i = j; i < j + kTile; ++i) to[k * kPanel + i] = from[i * column_stride + k];
    }
  }
  for (int64_t j = tile_columns; j < columns; ++j) {
    for (int64_t k = 0; k < depth; ++k) to[k * kPanel + j] = from[j * column_stride + k];
  }
}

template <class Raw, class Typed>
void PackTyped(const Matrix& source, int64_t depth_begin, int64_t depth, int64_t column_begin,
               int64_t columns, double least, double* value, double* magnitude) {
  constexpr int64_t kDepthAtOnce = 64;  // so that raw panels stay in the innermost cache
  Raw raw[kDepthAtOnce * kPanel];
  const Raw* const base = static_cast<const Raw*>(source.data) + column_begin * source.stride[1];
  for (int64_t k = 0; k < depth; k += kDepthAtOnce) {
    const int64_t count = std::min(kDepthAtOnce, depth - k);
    const Raw* const from = base + (depth_begin + k) * source.stride[0];
    if (columns < kPanel) std::fill_n(raw, count * kPanel, Raw{});
    if (source.stride[1] == 1) {
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(raw + i * kPanel, from + i * source.stride[0],
                    static_cast<size_t>(columns) * sizeof(Raw));
      }
    } else if (source.stride[0] == 1) {
      GatherTransposed(from, source.stride[1], count, columns, raw);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          raw[i * kPanel + j] = from[i * source.stride[0] + j * source.stride[1]];
        }
      }
    }
    WidenRun(reinterpret_cast<const Typed*>(raw), count * kPanel, least, value + k * kPanel,
             magnitude + k * kPanel);
  }
}

void PackPanel(const Matrix& source, int64_t depth_begin, int64_t depth, int64_t column_begin,
               int64_t columns, double least, double* value, double* magnitude) {
  const auto pack = source.dtype == kernel::DType::kBf16  ? PackTyped<uint16_t, Bf16Bits>
                    : source.dtype == kernel::DType::kF16 ? PackTyped<uint16_t, Fp16Bits>
                                                          : PackTyped<uint32_t, float>;
  pack(source, depth_begin, depth, column_begin, columns, least, value, magnitude);
}

template <class Typed>
void LoadTyped(const Matrix& source, int64_t i, int64_t columns, double least, double* value,
               double* magnitude) {
  const Typed* const from = static_cast<const Typed*>(source.data) + i * source.stride[0];
  const int64_t whole = source.stride[1] == 1 ? columns / kLanes * kLanes : 0;
  WidenRun(from, whole, least, value, magnitude);
  // Elements that are strided or left over are collected first.
  constexpr int64_t kAtOnce = 64;
  Typed raw[kAtOnce] = {};
  double wide[kAtOnce], absolute[kAtOnce];
  for (int64_t j = whole; j < columns; j += kAtOnce) {
    const int64_t count = std::min(kAtOnce, columns - j);
    for (int64_t k = 0; k < count; ++k) raw[k] = from[(j + k) * source.stride[1]];
    WidenRun(raw, (count + kLanes - 1) / kLanes * kLanes, least, wide, absolute);
    std::copy_n(wide, count, value + j);
    if (magnitude != nullptr) std::copy_n(absolute, count, magnitude + j);
  }
}

void LoadRow(const Matrix& source, int64_t i, int64_t columns, double least, double* value,
             double* magnitude) {
  const auto load = source.dtype == kernel::DType::kBf16  ? LoadTyped<Bf16Bits>
                    : source.dtype == kernel::DType::kF16 ? LoadTyped<Fp16Bits>
                                                          : LoadTyped<float>;
  load(source, i, columns, least, value, magnitude);
}

// x minus x without its lowest set fraction bit is that bit, exactly. If no fraction bit is set, x is a
// power of two. Every input is a normal double, or 0, infinite or NaN.
HWY_INLINE Vec LowestBitOf(Vec x) {
  const auto bits = hn::BitCast(kBits, x);
  const auto fraction = hn::And(bits, hn::Set(kBits, (uint64_t{1} << 52) - 1));
  const auto less = hn::And(fraction, hn::Sub(fraction, hn::Set(kBits, 1)));
  const Vec without = hn::BitCast(kDoubles, hn::Or(hn::AndNot(fraction, bits), less));
  const Vec lowest = hn::Abs(hn::Sub(x, without));
  const Vec power =
      hn::IfThenElse(hn::Eq(hn::BitCast(kDoubles, fraction), hn::Zero(kDoubles)), hn::Abs(x), lowest);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(kDoubles)),
                        hn::Set(kDoubles, std::numeric_limits<double>::infinity()), power);
}

void UpdateLowestBits(const double* value, int64_t depth, double* least) {
  Vec low[kPanel / kLanes];
  for (int64_t j = 0; j < kPanel / kLanes; ++j) low[j] = hn::LoadU(kDoubles, least + j * kLanes);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < kPanel / kLanes; ++j) {
      low[j] = hn::Min(LowestBitOf(hn::LoadU(kDoubles, value + k * kPanel + j * kLanes)), low[j]);
    }
  }
  for (int64_t j = 0; j < kPanel / kLanes; ++j) hn::StoreU(low[j], kDoubles, least + j * kLanes);
}

void UpdateMaxima(const double* magnitude, int64_t depth, double* largest) {
  const Vec infinity = hn::Set(kDoubles, std::numeric_limits<double>::infinity());
  Vec most[kPanel / kLanes];
  for (int64_t j = 0; j < kPanel / kLanes; ++j) most[j] = hn::LoadU(kDoubles, largest + j * kLanes);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < kPanel / kLanes; ++j) {
      const Vec one = hn::LoadU(kDoubles, magnitude + k * kPanel + j * kLanes);
      most[j] = hn::IfThenElse(hn::Lt(one, infinity), hn::Max(one, most[j]), most[j]);
    }
  }
  for (int64_t j = 0; j < kPanel / kLanes; ++j) hn::StoreU(most[j], kDoubles, largest + j * kLanes);
}

double LowestBit(double x) { return hn::GetLane(LowestBitOf(hn::Set(kDoubles, x))); }

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(PackPanel);
HWY_EXPORT(LoadRow);
HWY_EXPORT(UpdateLowestBits);
HWY_EXPORT(UpdateMaxima);
HWY_EXPORT(LowestBit);

void PackPanel(const Matrix& source, int64_t depth_begin, int64_t depth, int64_t column_begin,
               int64_t columns, double least, double* value, double* magnitude) {
  HWY_DYNAMIC_DISPATCH(PackPanel)
  (source, depth_begin, depth, column_begin, columns, least, value, magnitude);
}
void LoadRow(const Matrix& source, int64_t i, int64_t columns, double least, double* value,
             double* magnitude) {
  HWY_DYNAMIC_DISPATCH(LoadRow)(source, i, columns, least, value, magnitude);
}
void UpdateLowestBits(const double* value, int64_t depth, double* least) {
  HWY_DYNAMIC_DISPATCH(UpdateLowestBits)(value, depth, least);
}
void UpdateMaxima(const double* magnitude, int64_t depth, double* largest) {
  HWY_DYNAMIC_DISPATCH(UpdateMaxima)(magnitude, depth, largest);
}
double LowestBit(double x) { return HWY_DYNAMIC_DISPATCH(LowestBit)(x); }

}  // namespace plumbline::oracle
#endif  // HWY_ONCE
