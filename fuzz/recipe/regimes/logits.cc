// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at the softmax: masks, running maxima, offsets, and the digits that the logarithm
// keeps.

#include <utility>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::element;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

std::vector<Ingredients> RaggedTail() {
  auto content =
      weightedOneOf<Content>({{75, Contents(Values::kSmallLse, inRange(2, 7), AnyLabels())},
                              {15, Contents(Values::kAllNegative, inRange(0, 4), AnyLabels())},
                              {10, Contents(Values::kConstant, inRange(0, 5), AnyLabels())}});
  return {{BesideBig(Shapes(AnyRows(), RaggedVocab(), HiddenSize())), std::move(content),
           UsualUpstream(30), Settings(AnyTemperature())}};
}

std::vector<Ingredients> AllNegative() {
  auto depth = weightedOneOf<int>({{20, inRange(4, 7)}, {80, inRange(7, 15)}});
  return {{UsualShapes(), Contents(Values::kAllNegative, std::move(depth), AnyLabels()),
           UsualUpstream(30), Settings(AnyTemperature())}};
}

std::vector<Ingredients> CommonOffset() {
  auto offset = weightedOneOf<int>({{20, inRange(4, 9)}, {80, inRange(9, 21)}});
  return {{UsualShapes(), Contents(Values::kOffset, std::move(offset), AnyLabels()), UsualUpstream(30),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> ConfidentLabel() {
  auto labels = weightedElement<Labels>(
      {{86, Labels::kArgmax}, {8, Labels::kRandom}, {3, Labels::kFirst}, {3, Labels::kSomeIgnored}});
  return {{ShapesBesideFew(), Contents(Values::kConfident, ConfidentBits(), std::move(labels)),
           UsualUpstream(50), Settings(ExactTemperature())}};
}

std::vector<Ingredients> LargeVocabulary() {
  auto content =
      weightedOneOf<Content>({{50, Swallowing(Values::kSwallowSum, TileBits())},
                              {15, Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst))},
                              {10, Contents(Values::kGaussian, inRange(-1, 4), AnyLabels())},
                              {15, Contents(Values::kSmallLse, inRange(2, 6), AnyLabels())},
                              {10, Contents(Values::kLattice, inRange(-2, 4), AnyLabels())}});
  const auto with = [&](rc::Gen<Shape> shapes, size_t weight, int only_family) {
    return Ingredients{
        std::move(shapes), content, PlainUpstream(60), Settings(ExactTemperature()), true, weight,
        only_family};
  };
  // The largest vocabularies are rare, and level one has one case of them.
  auto largest =
      Shapes(rc::gen::just<int64_t>(1), rc::gen::element<int64_t>(131'072, 151'936, 151'937, 152'064),
             inRange<int64_t>(1, 5));
  return {with(LargeVocabularyShapes(), 98, -1), with(std::move(largest), 2, kLargeVocabularyFamily)};
}

std::vector<Ingredients> Huge() {
  auto short_of = weightedOneOf<int>({{15, just(0)}, {45, inRange(1, 9)}, {40, inRange(9, 61)}});
  return {{UsualShapes(), Contents(Values::kHuge, std::move(short_of), AnyLabels()), PlainUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> Staircase(Values values) {
  return {{UsualShapes(), Contents(values, inRange(-2, 6), AnyLabels()), UsualUpstream(40),
           Settings(ExactTemperature())}};
}
std::vector<Ingredients> Rising() { return Staircase(Values::kRising); }
std::vector<Ingredients> Falling() { return Staircase(Values::kFalling); }
std::vector<Ingredients> Zigzag() { return Staircase(Values::kZigzag); }

std::vector<Ingredients> Ties() {
  const auto settings = Settings(ExactTemperature());
  return {{UsualShapes(), Contents(Values::kTies, inRange(0, 13), AnyLabels()), UsualUpstream(40),
           settings, false, 65},
          {Shapes(AnyRows(), element<int64_t>(2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), HiddenSize()),
           Contents(Values::kConstant, inRange(-4, 8), AnyLabels()), UsualUpstream(40), settings, false,
           35}};
}

// Weights this small affect only the gradients, and only if those are scaled up.
std::vector<Ingredients> Ex2Underflow() {
  auto wide = weightedElement<Grads>({{60, Grads::kWide}, {40, Grads::kRandom}});
  auto entropy = weightedElement<Grads>({{60, Grads::kNone}, {40, Grads::kWide}});
  return {{UsualShapes(), Contents(Values::kOutlier, just(0), AnyLabels()),
           UpstreamOf(std::move(wide), std::move(entropy)), Settings(ExactTemperature())}};
}

std::vector<Ingredients> UlpApart() {
  return {{UsualShapes(), Contents(Values::kUlpApart, inRange(0, 11), AnyLabels()), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> HeavyTail() {
  return {{Shapes(inRange<int64_t>(1, 3), inRange<int64_t>(500, 6000), inRange<int64_t>(2, 9)),
           Swallowing(Values::kSwallowSum, inRange(0, 3)), PlainUpstream(60),
           Settings(ExactTemperature()), true}};
}

std::vector<Ingredients> LseZero() {
  return {{UsualShapes(), Contents(Values::kLseZero, just(0), AnyLabels()), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> EntropyTrap() {
  return {{UsualShapes(), Contents(Values::kEntropyTrap, inRange(8, 21), AnyLabels()),
           UsualUpstream(40), Settings(ExactTemperature())}};
}

std::vector<Ingredients> EntropyExtremes() {
  auto content = weightedOneOf<Content>(
      {{50, Contents(Values::kLattice, inRange(-20, -6), AnyLabels())},
       {50, Contents(Values::kConfident, inRange(16, 60), just(Labels::kArgmax))}});
  auto entropy = weightedElement<Grads>(
      {{20, Grads::kNone}, {20, Grads::kOnes}, {50, Grads::kRandom}, {10, Grads::kWide}});
  auto grads = weightedElement<Grads>({{50, Grads::kNone}, {50, Grads::kRandom}});
  return {{ShapesBesideFew(), std::move(content), UpstreamOf(std::move(grads), std::move(entropy)),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> UnlikelyLabel() {
  auto content =
      weightedOneOf<Content>({{40, Contents(Values::kSmallLse, inRange(6, 14), just(Labels::kArgmin))},
                              {40, Contents(Values::kFalling, inRange(2, 6), just(Labels::kArgmin))},
                              {20, Contents(Values::kGaussian, inRange(2, 6), just(Labels::kArgmin))}});
  return {{UsualShapes(), std::move(content), UsualUpstream(40), Settings(ExactTemperature())}};
}

std::vector<Ingredients> BeyondFp16() {
  return {{UsualShapes(), Contents(Values::kFar, inRange(12, 22), AnyLabels()), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> ExtremeTemperature() {
  const auto at = [](float temperature, int exp) {
    return Ingredients{UsualShapes(),
                       Contents(Values::kLattice, inRange(exp - 2, exp + 4), AnyLabels()),
                       UsualUpstream(40), Settings(just(temperature))};
  };
  return {at(0x1p-20F, -20), at(0x1p+20F, 20), at(0x1p-6F, -6), at(0x1p+12F, 12)};
}

// The reciprocals of the first ones are off by half an ulp and more; 1 + 2^-23 and its neighbours show
// whether a reciprocal was taken at all.
std::vector<Ingredients> Temperatures() {
  auto worst = element<float>(0x1.555556p-1F, 0x1.fffffep-1F, 0x1.000002p+0F, 0x1.99999ap-1F,
                              0x1.4ccccdp+0F, 0x1.ffffp+0F, 0x1.3fffep+1F);
  auto spread = rc::gen::apply(
      [](Setting s, bool per_row, int64_t powers) {
        s.temperature_per_row = per_row;
        s.temperature_spread = powers;
        return s;
      },
      Settings(std::move(worst)), Percent(50), weightedElement<int64_t>({{60, 1}, {40, 8}}));
  return {{UsualShapes(), OrdinaryContent(AnyLabels()), UsualUpstream(40), std::move(spread)}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"ragged-tail", Aim::kSharp,
      "V is no multiple of a tile and lse is small: a column past the end, read as 0, outweighs the "
      "real ones"},
     RaggedTail},
    {{"all-negative", Aim::kSharp,
      "every logit is far below 0: a running maximum that starts at 0 underflows all of them"},
     AllNegative},
    {{"common-offset", Aim::kSharp,
      "exact integer logits share a large offset: x_y - lse keeps only what the offset leaves of 24 "
      "bits"},
     CommonOffset},
    {{"confident-label", Aim::kSharp,
      "the label has all but 2^-k of the probability: p rounded before 1 is subtracted loses the "
      "gradient"},
     ConfidentLabel},
    {{"large-vocabulary", Aim::kSharp,
      "V up to 152 064: the depth of the sum over the vocabulary, and what it swallows, is what "
      "counts"},
     LargeVocabulary},
    {{"huge", Aim::kStress,
      "logits up to the largest that are judged: sentinels, overflow and infinite differences"},
     Huge},
    {{"rising-maxima", Aim::kSharp,
      "each tile has a new maximum: a sum that is not rescaled, or rescaled twice, keeps the wrong "
      "weight"},
     Rising},
    {{"falling-maxima", Aim::kSharp,
      "the first tile holds the maximum: one that starts anew in each tile, or drops the first, is "
      "lost"},
     Falling},
    {{"zigzag-maxima", Aim::kSharp,
      "maxima rise in every other tile: a rescale by the wrong difference turns weights above 1"},
     Zigzag},
    {{"ties", Aim::kSharp,
      "several columns share the maximum, beside tile edges as well: each must count, once"},
     Ties},
    {{"ex2-underflow", Aim::kSharp,
      "weights between 2^-126 and 2^-150: an exponential that flushes subnormals drops their gradient"},
     Ex2Underflow},
    {{"ulp-apart", Aim::kSharp,
      "the two largest logits differ in the last bit: which of them is the maximum still decides"},
     UlpApart},
    {{"heavy-tail", Aim::kSharp,
      "thousands of weights of 2^-24 beside 1: a sum of one accumulator swallows each of them"},
     HeavyTail},
    {{"lse-zero", Aim::kSharp,
      "all logits are about -ln V: maximum and logarithm cancel in lse, and a relative error does not"},
     LseZero},
    {{"entropy-trap", Aim::kSharp,
      "the entropy is small and lse is large: their difference, lse - sum p x, has no digit left"},
     EntropyTrap},
    {{"entropy-extremes", Aim::kSharp,
      "the entropy is nearly 0 or nearly ln V: the gradient of the entropy cancels to almost nothing"},
     EntropyExtremes},
    {{"unlikely-label", Aim::kSharp,
      "the label is the least likely column: its weight is 0 and its logprob is finite"},
     UnlikelyLabel},
    {{"beyond-fp16", Aim::kSharp,
      "logits pass 65504 though no input does: staged in fp16, they are infinite"},
     BeyondFp16},
    {{"extreme-temperature", Aim::kSharp,
      "T is 2^-20 or 2^20 and logits are scaled to match: a rounding before the scaling shows"},
     ExtremeTemperature},
    {{"temperatures", Aim::kSharp,
      "reciprocals that round worst, and rows that differ by 2^16: 1/T left out, or another row's"},
     Temperatures},
};

}  // namespace

std::span<const RegimeEntry> LogitRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
