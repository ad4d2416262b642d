// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/expand/values.h"

#include <cmath>
#include <cstdint>

namespace plumbline::fuzz {

Gaussian::Gaussian(const Recipe& r) : Gaussian(r, HoldExp(r, -100, 100, 10)) {}
Gaussian::Gaussian(const Recipe& r, int exp)
    : Kind{r.seed}, scale(Scale(1 / std::sqrt(static_cast<double>(std::max<int64_t>(r.h, 1))), exp)) {}

SmallLse::SmallLse(const Recipe& r)
    : PositiveHidden{{r.seed}, 3}, depth(Scale(1.0, HoldExp(r, 0, 60, 14))), h(r.h) {
  const PhiloxBlock plan = Of(Purpose::kPlan).At(0);
  const int64_t near_count = 1 + Below(plan[3], 3);
  for (int64_t k = 0; k < near_count; ++k) near[k] = Below(plan[static_cast<size_t>(k)], r.v);
}

AllNegative::AllNegative(const Recipe& r)
    : PositiveHidden{{r.seed}, 4}, depth(Scale(1.0, HoldExp(r, -20, 100, 14))), h(r.h) {}

namespace {

// Two dimensions: w = (m, -(m + k)) 2^(exp-p) under equal h, with m of p - 1 bits, so that the sum of
// the pair is k of its last bits.
void FillCancelTwo(const Recipe& r, int exp, HostTensor* hidden, HostTensor* weight) {
  const int precision = PrecisionOf(r.dtype);
  Fill(hidden, [&](int64_t i) {
    const double value = 1 + Unit(StreamOf(r, Purpose::kHidden).At(i)[0]);
    return [value](int64_t) { return value; };
  });
  Fill(weight, [&](int64_t v) {
    const PhiloxBlock bits = StreamOf(r, Purpose::kWeight).At(v);
    const int64_t quarter = int64_t{1} << (precision - 2);
    const int64_t large = quarter + Below(bits[0], quarter - 3), rest = Below(bits[1], 7) - 3;
    return [=](int64_t d) {
      return Scale(static_cast<double>(d == 0 ? large : -(large + rest)), exp - precision);
    };
  });
}

// P pairs of dimensions, far apart, with equal h and opposite w; the pairs' magnitudes sum to about
// 2^exp and cancel exactly. The last dimensions carry bell-shaped logits of standard deviation 1.
void FillCancel(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, 0, 60, 15);
  if (r.h < 2) return FillKind(Gaussian(r, 0), hidden, weight);  // nothing to cancel against
  if (r.h == 2) return FillCancelTwo(r, exp, hidden, weight);
  const int64_t pairs = (r.h - std::max<int64_t>(1, r.h / 4)) / 2, rest = r.h - 2 * pairs;
  const double large = Scale(1 / (4.0 * static_cast<double>(pairs)), exp);
  const double small = 1 / std::sqrt(static_cast<double>(rest));
  Fill(hidden, [&](int64_t i) {
    return [=, bits = BitsOf(r, Purpose::kHidden, i)](int64_t d) mutable {
      if (d >= 2 * pairs) return Bell(bits.Pair(d));
      return 1 + Unit(static_cast<uint32_t>(bits.Pair(d % pairs) >> 32));
    };
  });
  Fill(weight, [&](int64_t v) {
    return [=, row = BitsOf(r, Purpose::kWeight, v)](int64_t d) mutable {
      if (d >= 2 * pairs) return small * Bell(row.Pair(d));
      const uint64_t bits = row.Pair(d % pairs);
      const double sign = ((bits & 1) != 0) == (d < pairs) ? 1 : -1;
      return sign * large * (1 + Unit(static_cast<uint32_t>(bits >> 32)));
    };
  });
}

// One large product c = +-(1 + k/128) 2^exp, and tails of half an ulp of it. c is even in its last bit,
// so a tie rounds back to c: in fp32 every tail added to c alone is lost, H - 1 times u |c|. Tails
// raise the larger logits and lower the smaller ones, which is the worst case of the entropy's bound.
void FillSwallow(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  const int exp = HoldExp(r, -10, 60, 14);
  const PhiloxBlock plan = StreamOf(r, Purpose::kPlan).At(0);
  const double sign = (plan[0] & 1) != 0 ? -1 : 1;
  // At the first place the large product swallows everything after it. At another, what accumulates
  // before it is kept.
  const int64_t place = (plan[0] & 2) != 0 && r.h > 0 ? Below(plan[1], r.h) : 0;
  // fp16 cannot hold both 2^(exp-24) and 2^exp, so the scale is shared between both factors.
  const int share = r.dtype == kernel::DType::kF32 ? 0 : -12;
  Fill(hidden, [&](int64_t i) {
    const int scale = static_cast<int>(Below(StreamOf(r, Purpose::kHiddenPlan).At(i)[0], 3)) - 1;
    return [=](int64_t d) { return Scale(1.0, d == place ? scale : scale + share); };
  });
  Fill(weight, [&](int64_t v) {
    const int64_t k = 1 + Below(StreamOf(r, Purpose::kWeightPlan).At(v)[0], 127);
    const double large = sign * Scale(static_cast<double>(128 + k), exp - 7);
    const double tail = Scale((k >= 64) == (sign > 0) ? 1.0 : -1.0, exp - 24 - share);
    return [=](int64_t d) { return d == place ? large : tail; };
  });
}

}  // namespace

void FillValues(const Recipe& r, HostTensor* hidden, HostTensor* weight) {
  switch (r.values) {
    case Values::kGaussian:
    case Values::kSmallLse:
    case Values::kAllNegative:
    case Values::kLattice:
    case Values::kTies:
    case Values::kMassive:
      break;
    case Values::kOffset:
      if (r.h == 1) return FillLoneOffset(r, hidden, weight);
      break;
    case Values::kConfident:
      return FillConfident(r, hidden, weight);
    case Values::kCancel:
      return FillCancel(r, hidden, weight);
    case Values::kSwallow:
      return FillSwallow(r, hidden, weight);
    case Values::kConstant:
      return FillConstant(r, hidden, weight);
    case Values::kSwallowFma:
      return FillSwallowFma(r, hidden, weight);
    case Values::kSwallowTensor:
      return FillSwallowTensor(r, hidden, weight);
    case Values::kSwallowSum:
      return FillSwallowSum(r, hidden, weight);
    case Values::kSwallowGrads:
      return FillSwallowGrads(r, hidden, weight);
    case Values::kSubnormal:
      return FillSubnormal(r, hidden, weight);
    case Values::kHuge:
      return FillHuge(r, hidden, weight);
    case Values::kRising:
    case Values::kFalling:
    case Values::kZigzag:
      return FillStaircase(r, hidden, weight);
    case Values::kOutlier:
      return FillOutlier(r, hidden, weight);
    case Values::kUlpApart:
      return FillUlpApart(r, hidden, weight);
    case Values::kLseZero:
      return FillLseZero(r, hidden, weight);
    case Values::kEntropyTrap:
      return FillEntropyTrap(r, hidden, weight);
    case Values::kFar:
      return FillFar(r, hidden, weight);
    case Values::kTruncate:
      return FillTruncate(r, hidden, weight);
    case Values::kPositive:
      return FillPositive(r, hidden, weight);
    case Values::kSignedZeros:
      return FillSignedZeros(r, hidden, weight);
    case Values::kFullBits:
      return FillFullBits(r, hidden, weight);
    case Values::kLowRank:
      return FillLowRank(r, hidden, weight);
    case Values::kBitPatterns:
      return FillBitPatterns(r, hidden, weight);
    case Values::kAllExponents:
      return FillAllExponents(r, hidden, weight);
  }
  VisitKind(r, [&](const auto& kind) { FillKind(kind, hidden, weight); });
}

}  // namespace plumbline::fuzz
