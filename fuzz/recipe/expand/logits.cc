// SPDX-License-Identifier: Apache-2.0
//
// Values chosen by what the logits look like along the vocabulary: where the maxima lie, how far apart
// they are, and how many there are. Every logit is an integer times a power of two, exact in any order
// of summation.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// Dot products that carry integers of up to 24 bits: 7 bits a dimension, which every dtype holds. If
// there are too few dimensions, only the highest digits are carried. Powers of two move from weight to
// hidden where fp16 would not hold them.
class Digits {
 public:
  // Logits are k 2^least with |k| < 2^bits.
  Digits(const Recipe& r, int least, int bits)
      : fp16_(r.dtype == kernel::DType::kF16), least_(least), all_((bits + 6) / 7) {
    dims_ = std::min<int64_t>(all_, r.h);
  }
  int64_t dims() const { return dims_; }
  double Hidden(int64_t d) const { return Scale(1.0, Share(d)); }
  double Weight(int64_t k, int64_t d) const {
    const int64_t digit = (std::abs(k) >> (7 * Place(d))) & 127;
    return Scale(static_cast<double>(k < 0 ? -digit : digit), Exponent(d) - Share(d));
  }

 private:
  int64_t Place(int64_t d) const { return all_ - 1 - d; }  // highest first
  int Exponent(int64_t d) const { return least_ + 7 * static_cast<int>(Place(d)); }
  int Share(int64_t d) const {
    if (!fp16_) return 0;
    return Exponent(d) > 8 ? Exponent(d) - 8 : Exponent(d) < -24 ? Exponent(d) + 24 : 0;
  }

  bool fp16_;
  int least_;
  int64_t all_, dims_;
};

enum class Rest { kZero, kNoise };  // the contents of weight in the dimensions beyond the digits

// Makes logit v about integer_of(v) 2^least; if `scaled`, times 2^-1, 1 or 2 by row. Noise is multiples
// of 1/64 up to 1/2, left out if it would not be exact beside the rest.
template <class IntegerOf>
void FillIntegers(const Recipe& r, int least, int bits, bool scaled, Rest rest, IntegerOf integer_of,
                  HostTensor* hidden, HostTensor* weight) {
  const Digits digits(r, least, bits);
  const bool noise = rest == Rest::kNoise && least + bits <= 15 && least >= -8;
  Fill(hidden, [&](int64_t i) {
    const int scale =
        scaled ? static_cast<int>(Below(StreamOf(r, Purpose::kHiddenPlan).At(i)[0], 3)) - 1 : 0;
    return [=, bits_of = BitsOf(r, Purpose::kHidden, i)](int64_t d) mutable {
      if (d < digits.dims()) return Scale(digits.Hidden(d), scale);
      // Without noise hidden holds integers: finer values would make the products' lattice finer than
      // the logits'.
      return static_cast<double>(Below(bits_of.Word(d), 17) - 8) / (noise ? 8 : 1);
    };
  });
  const int64_t rest_dims = r.h - digits.dims();
  Fill(weight, [&](int64_t v) {
    const int64_t k = integer_of(v);
    const PhiloxBlock plan = StreamOf(r, Purpose::kWeightPlan).At(v);
    const int64_t first = digits.dims() + (rest_dims > 0 ? Below(plan[0], rest_dims) : 0);
    const int64_t second = digits.dims() + (rest_dims > 0 ? Below(plan[1], rest_dims) : 0);
    const int64_t first_noise = Below(plan[2], 5) - 2, second_noise = Below(plan[3], 5) - 2;
    return [=](int64_t d) {
      if (d < digits.dims()) return digits.Weight(k, d);
      if (!noise) return 0.0;
      return static_cast<double>((d == first ? first_noise : 0) + (d == second ? second_noise : 0)) / 8;
    };
  });
}

int BitWidth(int64_t n) { return n == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(n)); }

// Draws 16 to 256 columns, the tile sizes that kernels have.
int64_t Tile(uint32_t bits) { return int64_t{16} << Below(bits, 5); }

uint32_t WordOf(const Recipe& r, int64_t v) { return StreamOf(r, Purpose::kWeight).At(v)[0]; }

// ln n to about 2^-16, by squaring: exactly rounded operations only.
double NaturalLog(int64_t n) {
  double x = static_cast<double>(n), log2 = 0;
  while (x >= 2) {
    x /= 2;
    ++log2;
  }
  for (double bit = 0.5; bit > 0x1p-24; bit /= 2) {
    x *= x;
    if (x < 2) continue;
    x /= 2;
    log2 += bit;
  }
  return log2 * kLn2;
}

}  // namespace

// Logits that change by 2^(exp-6) a column, so by 2^exp a tile of 64: up, down, or up with each odd
// tile (of 16 to 256 columns) thrown back by more than it gains.
void FillStaircase(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -4, 5, 5);
  const int64_t tile = Tile(StreamOf(r, Purpose::kPlan).At(0)[0]);
  const auto height = [&](int64_t v) -> int64_t {
    if (r.values == Values::kRising) return v;
    if (r.values == Values::kFalling) return r.v - 1 - v;
    const int64_t number = v / tile;
    return number * tile / 4 + v % tile / 4 + (number % 2 == 0 ? tile : 0);
  };
  // Noise of up to 1/2 must not hide the gain of a tile.
  FillIntegers(r, exp - 6, BitWidth(r.v + tile) + 1, false, exp < 4 ? Rest::kZero : Rest::kNoise,
               height, hidden, weight);
}

// Several columns share the largest logit, +-2^exp, to the bit: a pair beside a tile edge, all columns
// beside edges, or half of all. The others are 1/8 to 8 below.
void FillTies(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 0, 14, 14);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t tile = std::min(Tile(plan[0]), std::max<int64_t>(r.v / 2, 1));
  const int64_t edge = tile * (1 + Below(plan[1], std::max<int64_t>((r.v - 1) / tile, 1)));
  const int64_t style = Below(plan[2], 3);
  const int64_t top = ((plan[3] & 1) != 0 ? -8 : 8) * (int64_t{1} << exp);
  const auto is_tied = [&](int64_t v) {
    if (style == 0) return v == edge || v == edge - 1;
    if (style == 1) return v % tile == 0 || v % tile == tile - 1;
    return (WordOf(r, v) & 1) != 0;
  };
  FillIntegers(
      r, -3, exp + 5, true, Rest::kZero,
      [&](int64_t v) { return is_tied(v) ? top : top - 1 - Below(WordOf(r, v), 64); }, hidden, weight);
}

// One logit of 0 and the others far below: between -87 and -104, where fp32 weights turn subnormal and
// vanish; or within 2^-15 of -126 ln 2 or -149 ln 2, the very edges.
void FillOutlier(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t last = std::max<int64_t>(r.v - 1, 0);
  const int64_t places[] = {0, last, Below(plan[1], std::max<int64_t>(r.v, 1))};
  const int64_t place = places[Below(plan[0], 3)], style = Below(plan[2], 4);
  const double edge = (style == 0 ? 126 : 149) * kLn2;
  const auto gap = [&](int64_t v) -> int64_t {
    const uint32_t bits = WordOf(r, v);
    if (style > 1) return (int64_t{87} << 17) + Below(bits, int64_t{17} << 17);
    return static_cast<int64_t>(edge * 0x1p17) + Below(bits, 9) - 4;
  };
  FillIntegers(
      r, -17, 24, false, Rest::kZero, [&](int64_t v) { return v == place ? 0 : -gap(v); }, hidden,
      weight);
}

// The two largest logits, about +-2^exp, differ by the last bit of fp32; the others lie 1 to 8 below,
// or as far as 24 bits reach.
void FillUlpApart(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 0, 10, 10);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t lower = Below(plan[0], std::max<int64_t>(r.v, 1));
  const int64_t upper =
      (lower + 1 + ((plan[1] & 1) != 0 ? 0 : Below(plan[2], r.v))) % std::max<int64_t>(r.v, 1);
  const int64_t sign = (plan[3] & 1) != 0 ? -1 : 1;
  const int64_t top = sign * ((int64_t{3} << 22) + Below(plan[3], int64_t{1} << 20));
  const int64_t one = int64_t{1} << (23 - exp);
  FillIntegers(
      r, exp - 23, 24, false, Rest::kZero,
      [&](int64_t v) {
        if (v == upper) return top + 1;
        if (v == lower) return top;
        const int64_t below = one * (1 + Below(WordOf(r, v), 8));
        // Limited to 24 bits, and as far from 0.
        return std::clamp(top - below, -(int64_t{1} << 24) + 1, (int64_t{1} << 24) - 1);
      },
      hidden, weight);
}

// All logits are about -ln V, so that the maximum and the logarithm of the sum cancel in lse. What
// remains is the last bits of a lattice of 2^-16, or noise.
void FillLseZero(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t spread = int64_t{1} << Below(plan[0], 15);
  const auto level = static_cast<int64_t>(NaturalLog(std::max<int64_t>(r.v, 1)) * 0x1p16);
  FillIntegers(
      r, -16, 21, false, Rest::kZero,
      [&](int64_t v) { return -level - spread / 2 + Below(WordOf(r, v), spread); }, hidden, weight);
}

// Integers about +-2^exp, of which one column leads by 8 to 24. The entropy is small beside a large
// lse, and subtracting one from the other loses it.
void FillEntropyTrap(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 5, 22, 22);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t leader = Below(plan[0], std::max<int64_t>(r.v, 1)), lead = 8 + Below(plan[1], 17);
  const int64_t offset = ((plan[2] & 1) != 0 ? -1 : 1) * (int64_t{1} << exp);
  FillIntegers(
      r, 0, exp + 2, false, Rest::kNoise,
      [&](int64_t v) { return offset + (v == leader ? lead : Below(WordOf(r, v), 3)); }, hidden,
      weight);
}

// Integers up to +-2^exp of either sign, with the softmax among the ten largest: logits pass fp16's
// 65504 although neither factor does.
void FillFar(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 10, 22, 22);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t top = ((plan[0] & 1) != 0 ? -1 : 1) * (int64_t{1} << exp);
  FillIntegers(
      r, 0, exp + 2, false, Rest::kZero,
      [&](int64_t v) {
        const uint32_t bits = WordOf(r, v);
        if ((bits & 3) == 0) return top - std::abs(top) / 2 - Below(bits, int64_t{1} << (exp - 1));
        return top - Below(bits, 10);
      },
      hidden, weight);
}

}  // namespace plumbline::fuzz
