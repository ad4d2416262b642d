// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/simd.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernel/host/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/host/simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::kernel::host {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kPanel>;
using Ints = hn::RebindToSigned<Floats>;
using Vec = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr Ints kInts;
constexpr int kVecLanes = static_cast<int>(hn::MaxLanes(Floats()));
constexpr int kVecsPerPanel = static_cast<int>(kPanel) / kVecLanes;

// Rows and panels of one call of the micro-kernel: as many accumulators as the registers hold beside
// one operand of either matrix, 6 x 4 of AVX-512's 32, 6 x 2 of AVX2's 16, 6 x 4 of NEON's 32.
constexpr int kRowsAtOnce = 6;
constexpr int kPanelsAtOnce = kVecLanes == 16 ? 4 : 1;

// Returns a * b + c rounded once, on any hardware.
HWY_INLINE Vec Fma(Vec a, Vec b, Vec c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  float x[kVecLanes], y[kVecLanes], z[kVecLanes];
  hn::StoreU(a, kFloats, x);
  hn::StoreU(b, kFloats, y);
  hn::StoreU(c, kFloats, z);
  for (int i = 0; i < kVecLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::LoadU(kFloats, z);
#endif
}

template <int kRows, int kPanels>
HWY_NOINLINE void MicroKernel(const DotBlock& block, int64_t row, int64_t panel) {
  constexpr int kVecs = kPanels * kVecsPerPanel;
  const float* const a = block.a + row * block.a_stride;
  const float* const b = block.b + panel * block.depth * kPanel;
  float* const c = block.c + row * block.c_stride + panel * kPanel;
  Vec sum[kRows][kVecs];
  PLUMBLINE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PLUMBLINE_UNROLL
    for (int j = 0; j < kVecs; ++j) {
      sum[r][j] = block.accumulate ? hn::LoadU(kFloats, c + r * block.c_stride + j * kVecLanes)
                                   : hn::Zero(kFloats);
    }
  }
  for (int64_t k = 0; k < block.depth; ++k) {
    Vec column[kVecs];
    PLUMBLINE_UNROLL
    for (int j = 0; j < kVecs; ++j) {
      const int64_t p = j / kVecsPerPanel;
      column[j] =
          hn::Load(kFloats, b + (p * block.depth + k) * kPanel + (j % kVecsPerPanel) * kVecLanes);
    }
    PLUMBLINE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec scale = hn::Set(kFloats, a[r * block.a_stride + k]);
      PLUMBLINE_UNROLL
      for (int j = 0; j < kVecs; ++j) sum[r][j] = Fma(scale, column[j], sum[r][j]);
    }
  }
  PLUMBLINE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PLUMBLINE_UNROLL
    for (int j = 0; j < kVecs; ++j) {
      hn::StoreU(sum[r][j], kFloats, c + r * block.c_stride + j * kVecLanes);
    }
  }
}

// Multiplies the rows from `row` on, which are at most kRows.
template <int kRows, int kPanels>
HWY_INLINE void LastRows(const DotBlock& block, int64_t row, int64_t panel) {
  if constexpr (kRows > 0) {
    if (block.rows - row == kRows) return MicroKernel<kRows, kPanels>(block, row, panel);
    LastRows<kRows - 1, kPanels>(block, row, panel);
  }
}

template <int kPanels>
HWY_INLINE void RowsOf(const DotBlock& block, int64_t panel) {
  int64_t row = 0;
  for (; row + kRowsAtOnce <= block.rows; row += kRowsAtOnce) {
    MicroKernel<kRowsAtOnce, kPanels>(block, row, panel);
  }
  LastRows<kRowsAtOnce - 1, kPanels>(block, row, panel);
}

void DotProducts(const DotBlock& block) {
  int64_t panel = 0;
  for (; panel + kPanelsAtOnce <= block.panels; panel += kPanelsAtOnce) {
    RowsOf<kPanelsAtOnce>(block, panel);
  }
  for (; panel < block.panels; ++panel) RowsOf<1>(block, panel);
}

// Returns e^-t. With n = round(-t / ln 2) and r = -t - n ln 2 in two steps, |r| <= 0.3466. e^r is its
// Taylor polynomial of degree 7, whose remainder is below 0.1 * 2^-24. Two scalings by powers of two
// follow; the first is exact, the second rounds where the result is subnormal.
HWY_INLINE Vec ExpOfMinus(Vec t) {
  constexpr float kMagic = 0x1.8p23f;  // adding it rounds to an integer, kept in the low bits
  constexpr float kZeroBeyond = 105;   // e^-105 < 2^-151
  const Vec limit = hn::Set(kFloats, kZeroBeyond);
  const Vec bounded = hn::IfThenElse(hn::Gt(t, limit), limit, t);  // keeps NaN
  const Vec shifted = Fma(bounded, hn::Set(kFloats, -0x1.715476p0f), hn::Set(kFloats, kMagic));
  const Vec n = hn::Sub(shifted, hn::Set(kFloats, kMagic));
  // ln 2 = 0x1.62e4p-1 (15 bits: n times it is exact) + 0x1.7f7d1cp-20.
  Vec r = Fma(n, hn::Set(kFloats, -0x1.62e4p-1f), hn::Neg(bounded));
  r = Fma(n, hn::Set(kFloats, -0x1.7f7d1cp-20f), r);
  Vec p = hn::Set(kFloats, 0x1.a01a02p-13f);         // 1/5040
  p = Fma(p, r, hn::Set(kFloats, 0x1.6c16c2p-10f));  // 1/720
  p = Fma(p, r, hn::Set(kFloats, 0x1.111112p-7f));   // 1/120
  p = Fma(p, r, hn::Set(kFloats, 0x1.555556p-5f));   // 1/24
  p = Fma(p, r, hn::Set(kFloats, 0x1.555556p-3f));   // 1/6
  p = Fma(p, r, hn::Set(kFloats, 0.5f));
  p = Fma(p, r, hn::Set(kFloats, 1.0f));
  p = Fma(p, r, hn::Set(kFloats, 1.0f));
  constexpr int32_t kMagicBits = std::bit_cast<int32_t>(kMagic);
  const auto exponent = hn::Sub(hn::BitCast(kInts, shifted), hn::Set(kInts, kMagicBits));
  const auto half = hn::ShiftRight<1>(exponent);
  const auto rest = hn::Sub(exponent, half);
  const auto bias = hn::Set(kInts, 127);
  const Vec first = hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const Vec second = hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::Add(rest, bias)));
  return hn::Mul(hn::Mul(p, first), second);
}

// Returns (m - z) / T, and +inf at a logit of -inf.
HWY_INLINE Vec Distance(Vec logit, float m, float temperature) {
  const Vec infinity = hn::Set(kFloats, std::numeric_limits<float>::infinity());
  Vec distance = hn::Sub(hn::Set(kFloats, m), logit);
  if (temperature != 1) distance = hn::Div(distance, hn::Set(kFloats, temperature));
  return hn::IfThenElse(hn::Eq(logit, hn::Neg(infinity)), infinity, distance);
}

void Exponentials(const float* z, float m, float temperature, int64_t count, float* t, float* e) {
  for (int64_t i = 0; i < count; i += kVecLanes) {
    const Vec distance = Distance(hn::LoadU(kFloats, z + i), m, temperature);
    hn::StoreU(distance, kFloats, t + i);
    hn::StoreU(ExpOfMinus(distance), kFloats, e + i);
  }
}

// Returns the larger of the two; NaN if either is, where a hardware maximum would drop one of them. It
// uses IsNaN and not Ne(b, b): in Highway 1.0 the latter compares ordered on AVX2, and is false for
// NaN.
HWY_INLINE Vec LargerOrNaN(Vec a, Vec b) {
  return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
}

float TileMaximum(const float* z) {
  alignas(64) float lane[kLanes];
  for (int64_t j = 0; j < kLanes; j += kVecLanes) {
    Vec largest = hn::LoadU(kFloats, z + j);
    for (int64_t i = kLanes; i < kTile; i += kLanes) {
      largest = LargerOrNaN(largest, hn::LoadU(kFloats, z + i + j));
    }
    hn::Store(largest, kFloats, lane + j);
  }
  float result = lane[0];
  for (int64_t j = 1; j < kLanes; ++j)
    result = lane[j] > result || lane[j] != lane[j] ? lane[j] : result;
  return result;
}

// Adds lanes j and j + width for width 8, 4, 2, 1.
HWY_INLINE float SumOfLanes(float* lane) {
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

TileSums SumTile(const float* z, float m, float temperature) {
  alignas(64) float weight_lane[kLanes];
  alignas(64) float moment_lane[kLanes];
  const Vec zero = hn::Zero(kFloats);
  for (int64_t j = 0; j < kLanes; j += kVecLanes) {
    Vec weights = zero;
    Vec moments = zero;
    for (int64_t i = j; i < kTile; i += kLanes) {
      const Vec distance = Distance(hn::LoadU(kFloats, z + i), m, temperature);
      const Vec weight = ExpOfMinus(distance);
      const Vec moment = hn::IfThenElse(hn::Eq(weight, zero), zero, hn::Mul(weight, distance));
      weights = hn::Add(weights, weight);
      moments = hn::Add(moments, moment);
    }
    hn::Store(weights, kFloats, weight_lane + j);
    hn::Store(moments, kFloats, moment_lane + j);
  }
  return {SumOfLanes(weight_lane), SumOfLanes(moment_lane)};
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::kernel::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::kernel::host {

HWY_EXPORT(DotProducts);
HWY_EXPORT(Exponentials);
HWY_EXPORT(TileMaximum);
HWY_EXPORT(SumTile);

void DotProducts(const DotBlock& block) { HWY_DYNAMIC_DISPATCH(DotProducts)(block); }

void Exponentials(const float* z, float m, float temperature, int64_t count, float* t, float* e) {
  HWY_DYNAMIC_DISPATCH(Exponentials)(z, m, temperature, count, t, e);
}

float TileMaximum(const float* z) { return HWY_DYNAMIC_DISPATCH(TileMaximum)(z); }

TileSums SumTile(const float* z, float m, float temperature) {
  return HWY_DYNAMIC_DISPATCH(SumTile)(z, m, temperature);
}

int64_t CompiledTargets() { return HWY_TARGETS; }

}  // namespace plumbline::kernel::host
#endif  // HWY_ONCE
