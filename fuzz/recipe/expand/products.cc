// SPDX-License-Identifier: Apache-2.0
//
// Values chosen by what the products of a dot product look like: signs, magnitudes, bits and
// repetitions.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

namespace {

int64_t Depth(const Recipe& r) { return std::max<int64_t>(r.h, 1); }

double SignOf(uint32_t bit) { return (bit & 1) != 0 ? -1 : 1; }

// The largest exponent of an element such that no sum of products passes 2^124, which is 2^126 at T =
// 1/4.
int HighestExponent(const Recipe& r) {
  if (r.dtype == kernel::DType::kF16) return 14;
  return (121 - FloorLog2(Depth(r))) / 2;
}

// One of TestFloat's significands (genCases_f32.c), `bits` bits long: all zeros, all ones, one bit, a
// run of ones, or all but one bit.
int64_t Pattern(uint32_t word, int bits) {
  const int64_t all = (int64_t{1} << bits) - 1;
  const auto at = static_cast<int>(Below(word << 3, bits)),
             to = static_cast<int>(Below(word << 13, bits));
  const int64_t one = int64_t{1} << at, run = (all >> std::min(at, to)) ^ (all >> std::max(at, to));
  const int64_t patterns[8] = {0, all, one, one, all ^ one, all >> at, all ^ (all >> at), run};
  return patterns[word >> 29];
}

}  // namespace

// (1 + k/128) 2^exp with small k, then addends of just under an ulp of it. Rounded to nearest, each
// addend counts as a whole ulp; truncated, each is lost, which is twice what rounding to nearest may
// lose.
void FillTruncate(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -6, 60, 14);
  const double sign = SignOf(StreamOf(r, Purpose::kPlan).At(0)[0]);
  const int share = r.dtype == kernel::DType::kF32 ? 0 : -12;  // see FillSwallowFma
  Fill(hidden, [&](int64_t i) {
    const int scale = static_cast<int>(Below(StreamOf(r, Purpose::kHiddenPlan).At(i)[0], 3)) - 1;
    return [=](int64_t d) { return d == 0 ? Scale(1.0, scale) : Scale(1 - 0x1p-8, scale + share); };
  });
  Fill(weight, [&](int64_t v) {
    const int64_t k = 1 + Below(StreamOf(r, Purpose::kWeightPlan).At(v)[0], 8);
    const double large = sign * Scale(static_cast<double>(128 + k), exp - 7);
    // One column in two has no addends, so that the others' loss changes the difference.
    const double addend = k % 2 == 0 ? 0 : sign * Scale(1.0, exp - 23 - share);
    return [=](int64_t d) { return d == 0 ? large : addend; };
  });
}

// Every product positive, logits about 2^exp: truncation adds up along H instead of averaging out.
void FillPositive(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -20, 30, 10) - FloorLog2(Depth(r));
  FillBoth(r, hidden, weight, [&](Purpose purpose, RowBits& bits, int64_t d) {
    return Scale(1 + Unit(bits.Word(d)), purpose == Purpose::kHidden ? -1 : exp);
  });
}

// Half of the elements are zeros of either sign, and one row in four of hidden and of weight has only
// zeros. The others are +-1 and +-2^exp.
void FillSignedZeros(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -20, 20, 14);
  const auto fill = [&](HostTensor* tensor, Purpose purpose, Purpose plan, int scale) {
    Fill(tensor, [&r, purpose, plan, scale](int64_t i) {
      const bool zeros = (StreamOf(r, plan).At(i)[0] & 3) == 0;
      return [=, bits = BitsOf(r, purpose, i)](int64_t d) mutable {
        const uint32_t word = bits.Word(d);
        const double magnitude = zeros || (word & 2) != 0 ? 0 : Scale(1.0, scale);
        return std::copysign(magnitude, SignOf(word));
      };
    });
  };
  fill(hidden, Purpose::kHidden, Purpose::kHiddenPlan, 0);
  fill(weight, Purpose::kWeight, Purpose::kWeightPlan, exp);
}

// Significands whose last bit is 1, and logits of standard deviation about 2^exp: any bits cut off an
// operand (TF32 keeps 11, bf16 split in two 16) were not all zero.
void FillFullBits(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -10, 10, 8) - FloorLog2(Depth(r)) / 2 - 1;
  const int precision = PrecisionOf(r.dtype);
  FillBoth(r, hidden, weight, [&](Purpose purpose, RowBits& bits, int64_t d) {
    const uint64_t pair = bits.Pair(d);
    const int64_t half = int64_t{1} << (precision - 1);
    const int64_t odd = half + (Below(static_cast<uint32_t>(pair), half) | 1);
    const int scale = purpose == Purpose::kHidden ? 0 : exp;
    return SignOf(static_cast<uint32_t>(pair >> 32)) *
           Scale(static_cast<double>(odd), scale - precision + 1);
  });
}

Massive::Massive(const Recipe& r) : Kind{r.seed}, exp(HoldExp(r, -4, 6, 4)) {
  const PhiloxBlock plan = Of(Purpose::kPlan).At(0);
  const int64_t count = 1 + Below(plan[3], 3);
  for (size_t k = 0; k < 3; ++k) channels[k] = Below(plan[k % static_cast<size_t>(count)], Depth(r));
}

// Rows of weight are copies of four rows, times 0, 1, -1 or 1/2, and rows of hidden are copies of two.
// Values are integers over a power of two, so that copies agree in every bit of a logit. The standard
// deviation is about 2^exp.
void FillLowRank(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -10, 10, 8) - FloorLog2(Depth(r)) / 2 - 3;
  const auto integer = [](uint32_t word) { return static_cast<double>(Below(word, 17) - 8); };
  Fill(hidden, [&](int64_t i) {
    const int64_t copy = Below(StreamOf(r, Purpose::kHiddenPlan).At(i)[0], 2);
    return [=, bits = BitsOf(r, Purpose::kHidden, copy)](int64_t d) mutable {
      return integer(bits.Word(d)) / 4;
    };
  });
  Fill(weight, [&](int64_t v) {
    const PhiloxBlock plan = StreamOf(r, Purpose::kWeightPlan).At(v);
    constexpr double kFactors[] = {0, 1, 1, 1, 1, -1, -1, 0.5};
    const double factor = kFactors[Below(plan[1], 8)];
    return [=, bits = BitsOf(r, Purpose::kWeight, Below(plan[0], 4))](int64_t d) mutable {
      return Scale(factor * integer(bits.Word(d)), exp);
    };
  });
}

// TestFloat's grid: significands of a few shapes, exponents at 0, beside 0, and anywhere up to +-exp.
void FillBitPatterns(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int limit = std::clamp(r.exp, 0, HighestExponent(r)), precision = PrecisionOf(r.dtype);
  const int lowest = r.dtype == kernel::DType::kF16 ? -14 : -126;
  FillBoth(r, hidden, weight, [&](Purpose, RowBits& row, int64_t d) {
    const uint64_t bits = row.Pair(d);
    const auto word = static_cast<uint32_t>(bits), place = static_cast<uint32_t>(bits >> 32);
    int exponent = static_cast<int>(Below(place << 3, 2 * limit + 1)) - limit;
    if ((place >> 30) == 0) exponent = 0;
    if ((place >> 30) == 1) exponent = static_cast<int>(Below(place << 3, 5)) - 2;
    exponent = std::clamp(exponent, lowest, limit);
    const int64_t significand = (int64_t{1} << (precision - 1)) + Pattern(word, precision - 1);
    const double value = Scale(static_cast<double>(significand), exponent - precision + 1);
    return (place & 1) != 0 ? -value : value;
  });
}

// Every exponent is equally likely. In one problem of four each element has its own exponent, from the
// last subnormal's up to the largest that sums allow, as Herbie samples; one product then decides
// nearly every logit. Otherwise each dimension of hidden has its own exponent, and weight the opposite
// one, so that products are of order 2^exp.
void FillAllExponents(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const Stream plan = StreamOf(r, Purpose::kPlan);
  const bool opposite = (plan.At(0)[0] & 3) != 0;
  const int share = HoldExp(r, -10, 10, 4) - FloorLog2(Depth(r)) / 2;
  const int reach = r.dtype == kernel::DType::kF16 ? 10 : HighestExponent(r) - 10;
  const int lowest = LowestExponent(r.dtype), precision = PrecisionOf(r.dtype);
  const int highest = r.dtype == kernel::DType::kF16 ? 7 : HighestExponent(r);
  std::vector<int> of_dimension;
  for (int64_t d = 0; d < r.h; ++d) {
    of_dimension.push_back(static_cast<int>(Below(plan.At(1, d)[0], 2 * reach + 1)) - reach);
  }
  const auto exponent_of = [&](Purpose purpose, int64_t d, uint32_t place) {
    if (!opposite) return lowest + static_cast<int>(Below(place, highest - lowest + 1));
    const int whole = of_dimension[static_cast<size_t>(d)];
    return purpose == Purpose::kHidden ? whole : share - whole;
  };
  FillBoth(r, hidden, weight, [&](Purpose purpose, RowBits& row, int64_t d) {
    const uint64_t bits = row.Pair(d);
    const auto place = static_cast<uint32_t>(bits >> 32);
    const int exponent = exponent_of(purpose, d, place);
    const int kept = std::min(precision - 1, exponent - lowest);  // fewer bits below the normals
    const int64_t significand =
        (int64_t{1} << kept) + Below(static_cast<uint32_t>(bits), int64_t{1} << kept);
    const double value = Scale(static_cast<double>(significand), exponent - kept);
    return (place & 1) != 0 ? -value : value;
  });
}

}  // namespace plumbline::fuzz
