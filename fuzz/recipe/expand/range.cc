// SPDX-License-Identifier: Apache-2.0
//
// Values at the two ends of a dtype's range: subnormals, which kernels must honour, and the largest
// logits that are judged.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

// Subnormals j 2^least against (1 + k/128) 2^e, with e such that logits are of order 1; either factor
// may be the subnormal one. Or both are small, so that products are subnormal themselves or vanish.
void FillSubnormal(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int64_t style = Below(StreamOf(r, Purpose::kPlan).At(0)[0], 3);
  const int least = LowestExponent(r.dtype), precision = PrecisionOf(r.dtype);
  const int64_t limit = int64_t{1} << (precision - 1);
  FillBoth(r, hidden, weight, [&](Purpose purpose, RowBits& row, int64_t d) {
    const bool subnormal = style != (purpose == Purpose::kHidden ? 1 : 0);
    const uint64_t bits = row.Pair(d);
    const double sign = (bits & 1) != 0 ? -1 : 1;
    const auto word = static_cast<uint32_t>(bits >> 32);
    if (subnormal) return sign * Scale(static_cast<double>(Below(word, limit)), least);
    const double mantissa = 1 + static_cast<double>(Below(word, 128)) / 128;
    return sign * Scale(mantissa, style == 2 ? least / 2 : -(least + precision - 1));
  });
}

// Columns are copies of three, so that many logits are equal to the bit and no single one decides the
// softmax. h is a power of two of either sign and w has 7 bits, so every logit is exact in any order.
void FillHuge(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int short_of = std::clamp(r.exp, 0, 100);
  const auto h = static_cast<uint64_t>(std::max<int64_t>(r.h, 1));
  const auto depth = static_cast<int>(std::bit_width(h - 1));
  const bool narrow = r.dtype == kernel::DType::kF16;
  const int exponent = narrow ? std::max(30 - short_of, 0) : 126 - short_of - depth;
  const int hidden_exp = exponent / 2, weight_exp = exponent - hidden_exp;
  Fill(hidden, [&](int64_t i) {
    return [=, bits = BitsOf(r, Purpose::kHidden, i)](int64_t d) mutable {
      return Scale((bits.Word(d) & 7) == 0 ? -1.0 : 1.0, hidden_exp);
    };
  });
  Fill(weight, [&](int64_t v) {
    const int64_t copy_of = Below(StreamOf(r, Purpose::kWeightPlan).At(v)[0], 3);
    return [=, bits = BitsOf(r, Purpose::kWeight, copy_of)](int64_t d) mutable {
      const uint32_t word = bits.Word(d);
      const double mantissa = (64 + static_cast<double>(Below(word, 64))) / 128;
      return Scale((word & 3) == 0 ? -mantissa : mantissa, weight_exp);
    };
  });
}

}  // namespace plumbline::fuzz
