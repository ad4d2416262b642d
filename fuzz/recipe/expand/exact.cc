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

// floor(sqrt n) for n < 2^52: sqrt is correctly rounded, so floor alone gives the exact result.
int64_t FloorSqrt(int64_t n) { return static_cast<int64_t>(std::sqrt(static_cast<double>(n))); }

// log2 n for n >= 1, linear between powers of two: at most 0.087 too small.
double RoughLog2(int64_t n) {
  const int floor = FloorLog2(n);
  return floor + (Scale(static_cast<double>(n), -floor) - 1);
}

}  // namespace

// One dimension alone: offset plus gap must itself be representable, which limits the offset to the
// precision of the dtype.
void FillLoneOffset(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const double sign = (StreamOf(r, Purpose::kPlan).At(0)[0] & 1) != 0 ? -1 : 1;
  const int exp = HoldExp(r, 4, PrecisionOf(r.dtype) - 1, PrecisionOf(r.dtype) - 1);
  // A negative offset has its gaps toward 0: magnitudes up to 2^exp + 8 are integers of the dtype.
  Fill(hidden, [&](int64_t) { return [&](int64_t) { return 1.0; }; });
  Fill(weight, [&](int64_t v) {
    const int64_t gap = Below(StreamOf(r, Purpose::kWeight).At(v)[0], 9);
    return [=](int64_t) { return sign * (Scale(1.0, exp) + static_cast<double>(gap)); };
  });
}

Offset::Offset(const Recipe& r) : Kind{r.seed}, h(r.h), parts(std::min<int64_t>(3, r.h - 1)) {
  const PhiloxBlock plan = Of(Purpose::kPlan).At(0);
  sign = (plan[0] & 1) != 0 ? -1 : 1;
  // The sum of magnitudes stays below 2^exp + 2^(exp-1) + 2^7 + 8. That is within 2^24, and within
  // 60 000 in fp16.
  const int exp = HoldExp(r, 0, 23, 15);
  const int bits = std::clamp(exp - 1, 0, 7);
  values[0] = Scale(1.0, exp);
  values[1] = Scale(static_cast<double>(Below(plan[1], int64_t{1} << bits)), exp - 1 - bits);
  values[2] = static_cast<double>(Below(plan[2], int64_t{1} << bits));
}

Confident::Confident(const Recipe& r)
    : Kind{r.seed}, v(r.v), h(r.h), leaders(std::clamp<int64_t>(r.n, 1, std::max<int64_t>(r.h, 1))) {
  const double others = r.v > 1 ? RoughLog2(r.v - 1) : 0;
  // A multiple of 1/4, so that it is exact in bf16 below 64, which exp = 75 and V = 2^17 reach.
  lead = std::floor(4 * kLn2 * (HoldExp(r, 0, 100, 100) + others) + 0.5) / 4;
}

void FillConfident(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  Confident kind(r);
  std::vector<int64_t> leading;
  for (int64_t d = 0; d < kind.leaders; ++d) leading.push_back(kind.Leading(d));
  kind.table = leading.data();
  FillKind(kind, hidden, weight);
}

Lattice::Lattice(const Recipe& r) : Kind{r.seed} {
  // fp16 starts at -20, so that the split below keeps the least bits at or above 2^-24.
  const int exp = HoldExp(r, r.dtype == kernel::DType::kF16 ? -20 : -60, 60, 12);
  const int64_t h = std::max<int64_t>(r.h, 1);
  const int precision = std::min(PrecisionOf(r.dtype), 12);
  const int bits = 1 + static_cast<int>(Below(Of(Purpose::kPlan).At(0)[0], precision));
  limit = std::min((int64_t{1} << bits) - 1, FloorSqrt((int64_t{1} << 24) / h));  // H A^2 <= 2^24
  // Integers uniform in [-A, A] have variance A^2 / 3, so a sum of products has A^4 H / 9.
  const auto variance =
      static_cast<uint64_t>(std::max<int64_t>(limit * limit * limit * limit * h / 9, 1));
  const int lattice = exp - FloorLog2(variance) / 2;
  hidden_exp = lattice >= 0 ? lattice / 2 : -((-lattice + 1) / 2);
  weight_exp = lattice - hidden_exp;
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
