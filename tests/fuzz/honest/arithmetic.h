// SPDX-License-Identifier: Apache-2.0
//
// fp32 arithmetic with subnormals kept or flushed, narrower formats by their bits, and the short
// polynomials of a kernel that declares large errors.

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/fuzz/honest/kernel.h"

namespace honest {

inline constexpr float kInfinity = __builtin_inff(), kNaN = __builtin_nanf("");
inline constexpr float kLog2E = 0x1.715476p+0f, kLn2 = 0x1.62e43p-1f;

inline uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float OfBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// Rounds to nearest even at the lowest `dropped` bits.
inline float DropBits(float x, int dropped) {
  if (!std::isfinite(x)) return x;
  const uint32_t bits = Bits(x), half = (1u << (dropped - 1)) - 1, odd = bits >> dropped & 1;
  return OfBits((bits + half + odd) >> dropped << dropped);
}
inline float ToBf16(float x) { return DropBits(x, 16); }
// TF32 has no number beyond its largest: a number that would round to infinity is that.
inline float ToTf32(float x) {
  const float y = DropBits(x, 13);
  return std::isfinite(x) && std::isinf(y) ? std::copysign(0x1.ffcp127f, x) : y;
}
inline float ToFp16(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  if (std::fabs(x) < 0x1p-14f) {  // steps of 2^-24, by a sum that rounds to them
    const float big = std::copysign(0x1.8p-1f, x);
    return std::copysign((x + big) - big, x);
  }
  const float y = DropBits(x, 13);
  return std::fabs(y) > 65504 ? std::copysign(kInfinity, x) : y;
}
inline float ToNarrow(float x, Narrow format) {
  return format == Narrow::kFp32 ? x : format == Narrow::kBf16 ? ToBf16(x) : ToFp16(x);
}

// The float next to the exact sum s + e toward zero, |e| being at most half an ulp of s.
inline float TowardZero(double s, double e) {
  auto r = static_cast<float>(s);
  if (!std::isfinite(s)) return r;
  const double rest = s - static_cast<double>(r) != 0 ? s - static_cast<double>(r) : e;
  if (std::isinf(r) || (r > 0 && rest < 0) || (r < 0 && rest > 0)) r = OfBits(Bits(r) - 1);
  return r;
}
inline float TruncatedFma(float a, float b, float c) {
  const double p = static_cast<double>(a) * b, s = p + c;
  const double back = s - p;
  return TowardZero(s, (p - (s - back)) + (c - back));
}
inline float TruncatedAdd(float a, float b) { return TruncatedFma(a, 1, b); }

// 2^x by the polynomial of degree 3 of FlashAttention-4: 1471 u, and exact at integers.
inline float RoughExp2(float x) {
  if (!(x >= -126)) return std::isnan(x) ? x : 0;
  if (x >= 127) return std::exp2(x);
  const float whole = std::floor(x), f = x - whole;
  const float p =
      std::fma(std::fma(std::fma(0.077119089663028717041015625f, f, 0.227564394474029541015625f), f,
                        0.695146143436431884765625f),
               f, 1.0f);
  return OfBits(Bits(p) + (static_cast<uint32_t>(static_cast<int32_t>(whole)) << 23));
}
// ln x = k ln 2 + ln(x 2^-k) with ln 2 written as 0.69316, 215 u too large, and a polynomial of degree
// 5 that is off by 192 u at 1, 2, 4, ...
inline float RoughLog(float x) {
  if (!(x > 0) || std::isinf(x)) return std::log(x);
  int k = 0;
  const float f = std::frexp(x, &k) * 2 - 1;
  float p = 0.029808765277266502f;
  for (const float c : {-0.1299571990966797f, 0.2838231921195984f, -0.4896990954875946f,
                        0.9991664290428162f, 1.144709767686436e-05f}) {
    p = std::fma(p, f, c);
  }
  return std::fma(static_cast<float>(k - 1), 0.69316f, p);
}
// 1/x by two Newton steps from the bits of x: too small by up to 110 u.
inline float RoughReciprocal(float x) {
  if (!(x >= 0x1p-125f && x <= 0x1p125f)) return 1 / x;
  float y = OfBits(0x7EF311C7 - Bits(x));
  for (int step = 0; step < 2; ++step) y = std::fma(std::fma(-x, y, 1.0f), y, y);
  return y;
}

// The operations of a kernel.
class Fp {
 public:
  explicit Fp(const Kernel& k) : k_(k) {}

  float In(float x) const { return k_.flush == Flush::kOperands ? Flushed(x) : x; }
  float Out(float x) const { return k_.flush != Flush::kNone ? Flushed(x) : x; }
  float Add(float a, float b) const { return Out(In(a) + In(b)); }
  float Sub(float a, float b) const { return Out(In(a) - In(b)); }
  float Mul(float a, float b) const { return Out(In(a) * In(b)); }
  float Fma(float a, float b, float c) const { return Out(std::fma(In(a), In(b), In(c))); }
  float Div(float a, float b) const { return Out(In(a) / In(b)); }
  float Reciprocal(float x) const { return Out(1 / In(x)); }
  // By s, n or T, where not a logit is divided.
  float DivBy(float a, float s) const {
    return k_.rough_division ? Mul(a, RoughReciprocal(s)) : Div(a, s);
  }
  float ReciprocalOfT(float t) const { return k_.rough_scale ? RoughReciprocal(t) : Reciprocal(t); }
  float Exp2(float x) const {
    return Weight(k_.rough_exponential ? RoughExp2(In(x)) : std::exp2(In(x)));
  }
  // A rough kernel multiplies by log2(e) written as 1.4427, 58 u too large.
  float Exp(float x) const {
    return Weight(k_.rough_exponential ? RoughExp2(Mul(x, 1.4427f)) : std::exp(In(x)));
  }
  float Log(float x) const { return Out(k_.rough_log ? RoughLog(In(x)) : std::log(In(x))); }

 private:
  static float Flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
  float Weight(float e) const { return k_.flush_exponentials ? Flushed(e) : Out(e); }
  const Kernel& k_;
};

}  // namespace honest
