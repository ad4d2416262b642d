// SPDX-License-Identifier: Apache-2.0
//
// Values on a lattice. With exact logits the bound of a correct kernel is a few ulp of the result, so
// any error after the dot product shows.

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// floor(log2 n) for n > 0.
int FloorLog2(uint64_t n) { return static_cast<int>(std::bit_width(n)) - 1; }

// floor(sqrt n) for n < 2^52: sqrt is correctly rounded, so floor alone gives the exact result.
int64_t FloorSqrt(int64_t n) { return static_cast<int64_t>(std::sqrt(static_cast<double>(n))); }

// log2 n for n >= 1, linear between powers of two: at most 0.087 too small.
double RoughLog2(int64_t n) {
  const int floor = FloorLog2(static_cast<uint64_t>(n));
  return floor + (Scale(static_cast<double>(n), -floor) - 1);
}

}  // namespace

// Integers. The first dimensions carry a common offset of about 2^exp as representable parts, the
// others gaps from 0 to 8. With one dimension alone, offset plus gap must itself be representable,
// which limits the offset to the precision of the dtype.
void FillOffset(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const double sign = (plan[0] & 1) != 0 ? -1 : 1;
  if (r.h == 1) {
    const int exp = HoldExp(r, 4, PrecisionOf(r.dtype) - 1, PrecisionOf(r.dtype) - 1);
    // A negative offset has its gaps toward 0: magnitudes up to 2^exp + 8 are integers of the dtype.
    Fill(hidden, [&](int64_t) { return [&](int64_t) { return 1.0; }; });
    Fill(weight, [&](int64_t v) {
      const int64_t gap = Below(StreamOf(r, Purpose::kWeight).At(v)[0], 9);
      return [=](int64_t) { return sign * (Scale(1.0, exp) + static_cast<double>(gap)); };
    });
    return;
  }
  // The sum of magnitudes stays below 2^exp + 2^(exp-1) + 2^7 + 8. That is within 2^24, and within
  // 60 000 in fp16.
  const int exp = HoldExp(r, 0, 23, 15);
  const int64_t parts = std::min<int64_t>(3, r.h - 1), gap_dims = r.h - parts;
  const int part_bits = std::clamp(exp - 1, 0, 7);
  const double part_values[] = {
      Scale(1.0, exp),
      Scale(static_cast<double>(Below(plan[1], int64_t{1} << part_bits)), exp - 1 - part_bits),
      static_cast<double>(Below(plan[2], int64_t{1} << part_bits))};
  Fill(hidden, [&](int64_t i) {
    return [=, bits = BitsOf(r, Purpose::kHidden, i)](int64_t d) mutable {
      return d < parts ? sign : static_cast<double>(1 + Below(bits.Word(d), 2));
    };
  });
  Fill(weight, [&](int64_t v) {
    const PhiloxBlock bits = StreamOf(r, Purpose::kWeightPlan).At(v);
    const int64_t first = parts + Below(bits[0], gap_dims), second = parts + Below(bits[1], gap_dims);
    const int64_t first_gap = Below(bits[2], 3), second_gap = Below(bits[3], 3);
    return [&, first, second, first_gap, second_gap](int64_t d) {
      if (d < parts) return part_values[d];
      return static_cast<double>((d == first ? first_gap : 0) + (d == second ? second_gap : 0));
    };
  });
}

// Row i leads through dimension i mod D: there one vocabulary column has the weight G and the others 0.
// D = min(N, H), so rows share a leading column only if there are too few dimensions. With G = ln 2
// (exp + log2(V - 1)) the others together weigh about 2^-exp. The remaining dimensions carry noise of
// at most 1/2. All values are multiples of 2^-3 and 2^-6.
void FillConfident(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 0, 100, 100);
  const double others = r.v > 1 ? RoughLog2(r.v - 1) : 0;
  // A multiple of 1/4, so that it is exact in bf16 below 64, which exp = 75 and V = 2^17 reach.
  const double lead = std::floor(4 * kLn2 * (exp + others) + 0.5) / 4;
  const int64_t leaders = std::clamp<int64_t>(r.n, 1, std::max<int64_t>(r.h, 1));
  std::vector<int64_t> leading(static_cast<size_t>(leaders));  // the column that leads each dimension
  for (int64_t d = 0; d < leaders; ++d) {
    leading[static_cast<size_t>(d)] = Below(StreamOf(r, Purpose::kPlan).At(d)[0], r.v);
  }
  Fill(hidden, [&](int64_t i) {
    return [=, bits = BitsOf(r, Purpose::kHidden, i)](int64_t d) mutable {
      if (d >= leaders) return static_cast<double>(Below(bits.Word(d), 17) - 8) / 8;
      return d == i % leaders ? 1.0 : static_cast<double>(Below(bits.Word(d), 3) - 1) / 64;
    };
  });
  Fill(weight, [&](int64_t v) {
    const PhiloxBlock bits = StreamOf(r, Purpose::kWeightPlan).At(v);
    const int64_t noise_dims = r.h - leaders;
    const int64_t first = leaders + (noise_dims > 0 ? Below(bits[0], noise_dims) : 0);
    const int64_t second = leaders + (noise_dims > 0 ? Below(bits[1], noise_dims) : 0);
    const int64_t first_noise = Below(bits[2], 5) - 2, second_noise = Below(bits[3], 5) - 2;
    return [&, v, first, second, first_noise, second_noise](int64_t d) {
      if (d < leaders) return leading[static_cast<size_t>(d)] == v ? lead : 0.0;
      const int64_t noise = (d == first ? first_noise : 0) + (d == second ? second_noise : 0);
      return static_cast<double>(noise) / 8;
    };
  });
}

// Integers up to A, times powers of two that make the logits' standard deviation about 2^exp. The
// number of bits of A is random: few bits give ties, many fill all 24 bits of fp32.
void FillLattice(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  // fp16 starts at -20, so that the split below keeps the least bits at or above 2^-24.
  const int exp = HoldExp(r, r.dtype == kernel::DType::kF16 ? -20 : -60, 60, 12);
  const int64_t h = std::max<int64_t>(r.h, 1);
  const int precision = std::min(PrecisionOf(r.dtype), 12);
  const int bits = 1 + static_cast<int>(Below(StreamOf(r, Purpose::kPlan).At(0)[0], precision));
  const int64_t limit =
      std::min((int64_t{1} << bits) - 1, FloorSqrt((int64_t{1} << 24) / h));  // H A^2 <= 2^24
  // Integers uniform in [-A, A] have variance A^2 / 3, so a sum of products has A^4 H / 9.
  const auto variance =
      static_cast<uint64_t>(std::max<int64_t>(limit * limit * limit * limit * h / 9, 1));
  const int lattice = exp - FloorLog2(variance) / 2;
  const int hidden_exp = lattice >= 0 ? lattice / 2 : -((-lattice + 1) / 2);
  const auto fill = [&](HostTensor* tensor, Purpose purpose, int scale) {
    Fill(tensor, [&](int64_t i) {
      return [=, row = BitsOf(r, purpose, i)](int64_t d) mutable {
        const int64_t integer = Below(row.Word(d), 2 * limit + 1) - limit;
        return Scale(static_cast<double>(integer), scale);
      };
    });
  };
  fill(hidden, Purpose::kHidden, hidden_exp);
  fill(weight, Purpose::kWeight, lattice - hidden_exp);
}

// One power of two everywhere: all logits are the same number, between 2^(exp-1) and 2^exp in size.
void FillConstant(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -100, 100, 15);
  const double sign = (StreamOf(r, Purpose::kPlan).At(0)[0] & 1) != 0 ? -1 : 1;
  const int halvings = r.h > 1 ? FloorLog2(static_cast<uint64_t>(r.h - 1)) + 1 : 0;
  const double value = Scale(1.0, exp - halvings);
  Fill(hidden, [&](int64_t) { return [&](int64_t) { return sign; }; });
  Fill(weight, [&](int64_t) { return [&](int64_t) { return value; }; });
}

}  // namespace plumbline::fuzz
