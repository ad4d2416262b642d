// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at the softmax: masks, running maxima, offsets, and what the logarithm keeps.

#include <utility>

#include "fuzz/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::Gen;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

std::vector<Ingredients> RaggedTail() {
  auto content =
      weightedOneOf<Content>({{75, Contents(Values::kSmallLse, inRange(2, 7), AnyLabels())},
                              {15, Contents(Values::kAllNegative, inRange(0, 4), AnyLabels())},
                              {10, Contents(Values::kConstant, inRange(0, 5), AnyLabels())}});
  return {{BesideBig(Shapes(Rows(), RaggedVocab(), HiddenSize())), std::move(content),
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
  return {{LargeVocabularyShapes(), std::move(content), PlainUpstream(60), Settings(ExactTemperature()),
           true}};
}

std::vector<Ingredients> Huge() {
  auto short_of = weightedOneOf<int>({{15, just(0)}, {45, inRange(1, 9)}, {40, inRange(9, 61)}});
  return {{UsualShapes(), Contents(Values::kHuge, std::move(short_of), AnyLabels()), PlainUpstream(40),
           Settings(ExactTemperature())}};
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
};

}  // namespace

std::span<const RegimeEntry> LogitRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
