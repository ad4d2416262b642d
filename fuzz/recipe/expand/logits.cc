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

enum class Rest { kZero, kNoise };  // the contents of weight in the dimensions beyond the digits

// Fills with Integers (fuzz/recipe/expand/kinds.h). Noise is left out if it would not be exact beside
// the rest.
template <class IntegerOf>
void FillIntegers(const Recipe& r, int least, int bits, Rest rest, IntegerOf integer_of,
                  HostTensor* hidden, HostTensor* weight) {
  const bool noise = rest == Rest::kNoise && least + bits <= 15 && least >= -8;
  FillKind(Integers<IntegerOf>{{r.seed}, Digits(r, least, bits), r.h, false, noise, integer_of}, hidden,
           weight);
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
  FillIntegers(r, exp - 6, BitWidth(r.v + tile) + 1, exp < 4 ? Rest::kZero : Rest::kNoise, height,
               hidden, weight);
}

Digits::Digits(const Recipe& r, int least, int bits)
    : fp16_(r.dtype == kernel::DType::kF16),
      least_(least),
      all_((bits + 6) / 7),
      dims_(std::min<int64_t>(all_, r.h)) {}

TiedInteger::TiedInteger(const Recipe& r) : Kind{r.seed} {
  const PhiloxBlock plan = Of(Purpose::kPlan).At(0);
  tile = std::min(Tile(plan[0]), std::max<int64_t>(r.v / 2, 1));
  edge = tile * (1 + Below(plan[1], std::max<int64_t>((r.v - 1) / tile, 1)));
  style = Below(plan[2], 3);
  top = ((plan[3] & 1) != 0 ? -8 : 8) * (int64_t{1} << HoldExp(r, 0, 14, 14));
}

Ties TiesOf(const Recipe& r) {
  return {{r.seed}, Digits(r, -3, HoldExp(r, 0, 14, 14) + 5), r.h, true, false, TiedInteger(r)};
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
      r, -17, 24, Rest::kZero, [&](int64_t v) { return v == place ? 0 : -gap(v); }, hidden, weight);
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
      r, exp - 23, 24, Rest::kZero,
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
      r, -16, 21, Rest::kZero,
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
      r, 0, exp + 2, Rest::kNoise,
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
      r, 0, exp + 2, Rest::kZero,
      [&](int64_t v) {
        const uint32_t bits = WordOf(r, v);
        if ((bits & 3) == 0) return top - std::abs(top) / 2 - Below(bits, int64_t{1} << (exp - 1));
        return top - Below(bits, 10);
      },
      hidden, weight);
}

}  // namespace plumbline::fuzz
