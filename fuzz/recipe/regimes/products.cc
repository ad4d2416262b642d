// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at the dot products: values that are rounded, swallowed, truncated or flushed on the
// way to a logit.

#include <utility>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedOneOf;

std::vector<Ingredients> ExactDot() {
  auto content =
      weightedOneOf<Content>({{92, Contents(Values::kLattice, inRange(-2, 6), AnyLabels())},
                              {8, Contents(Values::kConstant, inRange(-4, 8), AnyLabels())}});
  return {{ShapesBesideFew(), std::move(content), UsualUpstream(40), Settings(ExactTemperature())}};
}

std::vector<Ingredients> Cancellation() {
  auto content = weightedOneOf<Content>({{70, Contents(Values::kCancel, inRange(3, 17), AnyLabels())},
                                         {30, Contents(Values::kSwallow, inRange(0, 7), AnyLabels())}});
  return {{UsualShapes(), std::move(content), UsualUpstream(30), Settings(AnyTemperature())}};
}

// Each arithmetic has the shape in which it loses most. Logits lie so close together that no weight is
// lost beside another: adding e^-17 to 1 would reach a bound too, but not by the loss that is meant.
std::vector<Ingredients> Swallow() {
  const auto settings = Settings(ExactTemperature());
  return {{DeepShapes(), Swallowing(Values::kSwallowFma, inRange(-2, 6)), PlainUpstream(75), settings,
           true, 35},
          {DeepShapes(), Swallowing(Values::kSwallowTensor, inRange(-3, 1)), PlainUpstream(75),
           settings, true, 25},
          {Shapes(inRange<int64_t>(1, 3), inRange<int64_t>(500, 5000), inRange<int64_t>(1, 9)),
           Swallowing(Values::kSwallowSum, TileBits()), PlainUpstream(75), settings, true, 10},
          {LongSumShapes(), Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst)),
           PlainUpstream(85), settings, true, 30}};
}

std::vector<Ingredients> Subnormal() {
  return {{UsualShapes(), Contents(Values::kSubnormal, just(0), AnyLabels()), PlainUpstream(40),
           Settings(AnyTemperature())}};
}

std::vector<Ingredients> Truncation() {
  return {{DeepShapes(), Swallowing(Values::kTruncate, inRange(-2, 6)), PlainUpstream(75),
           Settings(ExactTemperature()), true}};
}

std::vector<Ingredients> PositiveDepth() {
  return {{DeepShapes(), Contents(Values::kPositive, inRange(0, 5), AnyLabels()), PlainUpstream(60),
           Settings(ExactTemperature()), true}};
}

std::vector<Ingredients> SignedZeros() {
  return {{UsualShapes(), Contents(Values::kSignedZeros, inRange(-3, 4), AnyLabels()),
           UsualUpstream(40), Settings(ExactTemperature())}};
}

// Most have 32-bit inputs: the narrower ones have nothing to lose where products are exact.
std::vector<Ingredients> FullMantissa() {
  auto settings = rc::gen::apply(
      [](Setting s, bool wide) {
        if (wide) s.dtype = kernel::DType::kF32;
        return s;
      },
      Settings(ExactTemperature()), Percent(70));
  return {{UsualShapes(), Contents(Values::kFullBits, inRange(-2, 4), AnyLabels()), UsualUpstream(40),
           std::move(settings)}};
}

std::vector<Ingredients> MassiveChannels() {
  return {{UsualShapes(), Contents(Values::kMassive, inRange(-2, 4), AnyLabels()), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> LowRank() {
  return {{UsualShapes(), Contents(Values::kLowRank, inRange(-2, 4), AnyLabels()), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> BitPatterns() {
  auto exp = weightedOneOf<int>({{70, inRange(0, 5)}, {20, inRange(5, 12)}, {10, inRange(12, 61)}});
  return {{UsualShapes(), Contents(Values::kBitPatterns, std::move(exp), AnyLabels()),
           PlainUpstream(40), Settings(ExactTemperature())}};
}

std::vector<Ingredients> AllExponents() {
  return {{UsualShapes(), Contents(Values::kAllExponents, inRange(-2, 4), AnyLabels()),
           PlainUpstream(40), Settings(ExactTemperature())}};
}

// Depths at which the last block of a loop of 8, 16, 32, 64 or 128 is partial.
std::vector<Ingredients> DepthTails() {
  auto depth =
      weightedOneOf<int64_t>({{15, just<int64_t>(1)},
                              {45, rc::gen::element<int64_t>(7, 9, 15, 16, 17, 31, 33)},
                              {40, rc::gen::element<int64_t>(63, 65, 95, 97, 127, 129, 255, 257)}});
  auto content =
      weightedOneOf<Content>({{60, Contents(Values::kLattice, inRange(-1, 4), AnyLabels())},
                              {40, Contents(Values::kPositive, inRange(0, 4), AnyLabels())}});
  return {{Shapes(AnyRows(), Vocab(), std::move(depth)), std::move(content), UsualUpstream(40),
           Settings(ExactTemperature()), true}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"exact-dot", Aim::kSharp,
      "every dot product is exact in any order: one rounding of a logit is farther off than the bound"},
     ExactDot},
    {{"cancellation", Aim::kStress,
      "products are far larger than their sum, or too small to be added one by one: order and width "
      "matter"},
     Cancellation},
    {{"swallow", Aim::kSharp,
      "small terms vanish one by one beside a large one: an accumulation's error comes near its bound"},
     Swallow},
    {{"subnormal", Aim::kStress,
      "inputs are subnormal: a kernel that flushes them computes with zeros"},
     Subnormal},
    {{"truncation", Aim::kSharp,
      "addends just under an ulp of the accumulator: rounding toward zero loses each of them whole"},
     Truncation},
    {{"positive-depth", Aim::kSharp,
      "every product is positive and H is deep: a rounding with a bias adds up instead of averaging "
      "out"},
     PositiveDepth},
    {{"signed-zeros", Aim::kSharp,
      "zeros of either sign, in whole rows too: a zero taken for empty, or for the sign of a product"},
     SignedZeros},
    {{"full-mantissa", Aim::kSharp,
      "every significand ends in 1: inputs cut to TF32, or to two parts of bf16, lose that bit"},
     FullMantissa},
    {{"massive-channels", Aim::kSharp,
      "a few channels of hidden are 10^5 times the others, as in large models: the others must not "
      "drown"},
     MassiveChannels},
    {{"low-rank", Aim::kSharp,
      "rows are copies of each other, or 0: equal rows have equal bits, wherever they lie"},
     LowRank},
    {{"bit-patterns", Aim::kStress,
      "significands of runs and single bits at all exponents: splitting, packing and widening of bits"},
     BitPatterns},
    {{"all-exponents", Aim::kStress,
      "every exponent is as likely, subnormals too: what is only right for values of order 1"},
     AllExponents},
    {{"depth-tails", Aim::kSharp,
      "H is 1, or beside a multiple of a block: the last, partial step of the dot product"},
     DepthTails},
};

}  // namespace

std::span<const RegimeEntry> ProductRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
