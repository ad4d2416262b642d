// SPDX-License-Identifier: Apache-2.0
//
// Values with which an accumulation loses one small term after another, each to the last bit that its
// bound allows: the bounds are reached, not merely respected. There is one kind for each arithmetic,
// since what one loses another keeps.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

namespace {

// Picks the columns whose exact logits lie above the large product alone; the others' lie below. They
// are all or none (which lse shows), the larger ones (entropy), or the first (its logprob and its
// gradient).
class Lifted {
 public:
  explicit Lifted(const PhiloxBlock& plan) : pattern_(Below(plan[1], 4)) {}
  bool operator()(int64_t v, bool larger) const {
    return pattern_ == 0 || (pattern_ == 2 && larger) || (pattern_ == 3 && v == 0);
  }

 private:
  int64_t pattern_;
};

// The exponent of a row's scale, 2^-1, 1 or 2: rows differ, and their logits lose terms alike.
int RowScale(const Recipe& r, int64_t row) {
  return static_cast<int>(Below(StreamOf(r, Purpose::kHiddenPlan).At(row)[0], 3)) - 1;
}

}  // namespace

// c = +-(1 + k/128) 2^exp with small k, then tails of 2^(exp-24), which is half an ulp of c. c is even,
// so a tie rounds back to c. The loss is H - 1 times 2^(exp-24); the bound is (H - 1) u |c| or H u |c|.
void FillSwallowFma(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -6, 60, 14);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const double sign = (plan[0] & 1) != 0 ? -1 : 1;
  const Lifted lifted(plan);
  // fp16 cannot hold both 2^(exp-24) and 2^exp, so the scale is shared between both factors.
  const int share = r.dtype == kernel::DType::kF32 ? 0 : -12;
  Fill(hidden, [&](int64_t i) {
    const int scale = RowScale(r, i);
    return [=](int64_t d) { return Scale(1.0, d == 0 ? scale : scale + share); };
  });
  Fill(weight, [&](int64_t v) {
    const int64_t k = 1 + Below(StreamOf(r, Purpose::kWeightPlan).At(v)[0], 8);
    const double large = sign * Scale(static_cast<double>(128 + k), exp - 7);
    const bool larger = (k > 4) == (sign > 0);
    const double tail = Scale(lifted(v, larger) ? 1.0 : -1.0, exp - 24 - share);
    return [=](int64_t d) { return d == 0 ? large : tail; };
  });
}

// For a tensor core that aligns 16 products with the accumulator to 25 bits below the largest exponent,
// and truncates. Tails just below the last of those bits are lost entirely, and the sum's own last two
// bits are lost when it is rounded to fp32. One tail in 16 of just below four such bits leaves three of
// them to be lost there: 19 of the 21 units that the bound allows (17 addends, and 2u). Signs are those
// of the large product, since truncation reduces magnitudes: columns that are to lie above are
// positive.
void FillSwallowTensor(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -6, 60, 14);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const Lifted lifted(plan);
  const int share = r.dtype == kernel::DType::kF16 ? -12 : 0;
  Fill(hidden, [&](int64_t i) {
    const int scale = RowScale(r, i);
    return [=](int64_t d) { return d == 0 ? Scale(1.0, scale) : Scale(1 - 0x1p-8, scale + share); };
  });
  Fill(weight, [&](int64_t v) {
    const int64_t k = Below(StreamOf(r, Purpose::kWeightPlan).At(v)[0], 4);
    const double sign = lifted(v, (k & 1) != 0) ? 1 : -1;
    const double large = sign * Scale(static_cast<double>(128 + k), exp - 7);
    return [=](int64_t d) {
      if (d == 0) return large;
      return sign * Scale(1.0, exp - (d % 16 == 15 ? 23 : 25) - share);
    };
  });
}

// One logit of 0, the others at a gap of just above (24 + exp) ln 2: 2^exp of their weights add up to
// half an ulp of the 1 that they are added to. Logits are exact, with the gap in two parts that bf16
// holds.
void FillSwallowSum(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 0, 12, 12);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t place = (plan[0] & 3) != 0 ? 0 : Below(plan[1], std::max<int64_t>(r.v, 1));
  const double gap = (24 + exp) * kLn2;
  const double step = gap < 16 ? 0x1p-4 : gap < 32 ? 0x1p-3 : 0x1p-2;
  const double coarse = r.h < 2 ? std::ceil(gap / step) * step : std::floor(gap / step) * step;
  const double fine = std::ceil((gap - coarse) * 0x1p10) * 0x1p-10;
  Fill(hidden, [&](int64_t) { return [](int64_t) { return 1.0; }; });
  Fill(weight, [&](int64_t v) {
    return [=](int64_t d) { return v == place ? 0.0 : d == 0 ? -coarse : d == 1 ? -fine : 0.0; };
  });
}

// Every product in a logit is 0, so p = 1/V. In the first half of the dimensions only weight is set:
// the term of column 0, meant to be every row's label, is just above 1 in size, and those of the others
// are half an ulp of it, so that grad_hidden keeps column 0 alone. In the second half only hidden is
// set: row 0 is 1 and the others 2^-24, so that, if V is a power of two, grad_weight keeps row 0 alone.
void FillSwallowGrads(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const int64_t weight_dims = r.h == 1 ? static_cast<int64_t>(plan[0] & 1) : r.h / 2;
  const auto columns = static_cast<uint64_t>(std::max<int64_t>(r.v, 2));
  const int log_columns = static_cast<int>(std::bit_width(columns)) - 1;
  // The least k with (1 - 1/V)(1 + k/128) >= 1.
  const auto least = static_cast<int64_t>((128 + columns - 2) / (columns - 1));
  const double large = 1 + static_cast<double>(std::min<int64_t>(least + Below(plan[1], 3), 127)) / 128;
  const double first = std::has_single_bit(columns) ? 1 : 2;
  const auto sign = [&](int64_t d) {
    return (StreamOf(r, Purpose::kPlan).At(1 + d)[0] & 1) != 0 ? -1.0 : 1.0;
  };
  Fill(hidden, [&](int64_t i) {
    return [&, i](int64_t d) { return d < weight_dims ? 0 : i == 0 ? first : sign(d) * 0x1p-24; };
  });
  Fill(weight, [&](int64_t v) {
    return [&, v](int64_t d) {
      if (d >= weight_dims) return 0.0;
      return v == 0 ? large : sign(d) * Scale(1.0, log_columns - 24);
    };
  });
}

}  // namespace plumbline::fuzz
