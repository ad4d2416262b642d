// SPDX-License-Identifier: Apache-2.0

#include "tests/kernel/support/tensor_core_definition.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace plumbline::kernel {
namespace {

constexpr uint32_t kNaN = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;

// A term: integer * 2^(exponent - bits). The integer has `bits` fraction bits.
struct Term {
  bool negative;
  uint64_t integer;
  int exponent;
  int bits;
};

// Decomposes a finite number in a format with p fraction bits and this least exponent.
Term TermOf(float x, int p, int least_exponent) {
  Term term = {std::signbit(x), 0, least_exponent, p};
  int exponent = 0;
  const double m = std::frexp(std::fabs(static_cast<double>(x)), &exponent);  // in [1/2, 1)
  if (m != 0) term.exponent = std::max(exponent - 1, least_exponent);
  term.integer =
      static_cast<uint64_t>(std::ldexp(std::fabs(static_cast<double>(x)), p - term.exponent));
  return term;
}

// Returns IEEE's sum of the terms where one is infinite or NaN, 0 if none is.
uint32_t SpecialSum(const float* a, const float* b, int64_t count, uint32_t c) {
  bool plus = c == kInfinity, minus = c == (kInfinity | 0x80000000u);
  bool nan = (c & 0x7fffffffu) > kInfinity;
  for (int64_t k = 0; k < count; ++k) {
    const bool infinite = std::isinf(a[k]) || std::isinf(b[k]);
    nan = nan || std::isnan(a[k]) || std::isnan(b[k]) || (infinite && (a[k] == 0 || b[k] == 0));
    if (infinite) (std::signbit(a[k]) != std::signbit(b[k]) ? minus : plus) = true;
  }
  if (nan || (plus && minus)) return kNaN;
  if (plus) return kInfinity;
  return minus ? kInfinity | 0x80000000u : 0;
}

// Returns the bf16 nearest to x, ties to even, by trying its neighbours; never infinite.
double NearestBFloat16(double x) {
  if (x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 8, -133));
  return std::clamp(std::nearbyint(x / unit) * unit, -0x1.fep127, 0x1.fep127);
}

}  // namespace

uint32_t TensorCoreBlockByDefinition(DType format, const float* a, const float* b, int64_t count,
                                     uint32_t c) {
  if (const uint32_t special = SpecialSum(a, b, count, c)) return special;
  const int p = format == DType::kF16 ? 10 : 7;
  const int least = format == DType::kF16 ? -14 : -126;
  std::vector<Term> terms;
  for (int64_t k = 0; k < count; ++k) {
    const Term x = TermOf(a[k], p, least), y = TermOf(b[k], p, least);
    terms.push_back({x.negative != y.negative, x.integer * y.integer, x.exponent + y.exponent, 2 * p});
  }
  terms.push_back(TermOf(std::bit_cast<float>(c), 23, -126));
  int e = -133;
  for (const Term& term : terms) {
    if (term.integer != 0) e = std::max(e, term.exponent);
  }
  int64_t sum = 0;  // in units of 2^(e - 25)
  for (const Term& term : terms) {
    const int shift = e - 25 - (term.exponent - term.bits);
    uint64_t kept = 0;
    if (term.integer == 0) continue;  // a zero has no part in E, whatever its exponent
    if (shift <= 0) kept = term.integer << -shift;
    if (shift > 0 && shift < 64) kept = term.integer >> shift;
    sum += term.negative ? -static_cast<int64_t>(kept) : static_cast<int64_t>(kept);
  }
  const uint32_t sign = sum < 0 ? 0x80000000u : 0;
  auto magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  if (magnitude == 0) return 0;
  // The lowest bit that fp32 keeps is 23 below the top one, and not below 2^-149.
  const int top = 63 - std::countl_zero(magnitude) + e - 25;
  if (top > 127) return kInfinity | sign;
  const int last = std::max(top - 23, -149);
  const int drop = last - (e - 25);
  magnitude = drop >= 0 ? magnitude >> drop : magnitude << -drop;
  if (magnitude == 0) return 0;
  return sign |
         std::bit_cast<uint32_t>(static_cast<float>(std::ldexp(static_cast<double>(magnitude), last)));
}

uint32_t TensorCoreByDefinition(DType dtype, const float* a, const float* b, int64_t depth) {
  constexpr int64_t kBlock = 16;
  uint32_t c = 0;
  if (dtype != DType::kF32) {
    for (int64_t k = 0; k < depth; k += kBlock) {
      c = TensorCoreBlockByDefinition(dtype, a + k, b + k, std::min(kBlock, depth - k), c);
    }
    return c;
  }
  // planes[0] is hi, [1] mid and [2] lo of the finite elements.
  const auto n = static_cast<size_t>(depth);
  std::vector<float> planes_a[3], planes_b[3];
  const auto split = [&](const float* x, std::vector<float>* planes) {
    for (size_t k = 0; k < n; ++k) {
      double rest = std::isfinite(x[k]) ? static_cast<double>(x[k]) : 0;
      for (int plane = 0; plane < 3; ++plane) {
        const double value = NearestBFloat16(rest);
        planes[plane].push_back(static_cast<float>(value));
        rest -= value;
      }
    }
  };
  split(a, planes_a);
  split(b, planes_b);
  const int order[6][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
  for (int pass = 0; pass < 6; ++pass) {
    for (int64_t k = 0; k < depth; k += kBlock) {
      const int64_t count = std::min(kBlock, depth - k);
      const uint32_t special = pass == 5 ? SpecialSum(a + k, b + k, count, c) : 0;
      c = special != 0 ? special
                       : TensorCoreBlockByDefinition(DType::kBf16, planes_a[order[pass][0]].data() + k,
                                                     planes_b[order[pass][1]].data() + k, count, c);
    }
  }
  return c;
}

}  // namespace plumbline::kernel
