// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at how labels, ignored rows and special values are read, and at values that must not
// affect other rows.

#include <utility>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::element;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

std::vector<Ingredients> IgnoredRows() {
  auto vocab = weightedOneOf<int64_t>({{98, Vocab()}, {2, just<int64_t>(0)}});
  auto rows = weightedOneOf<int64_t>({{15, AnyRows()}, {85, SeveralRows()}});
  auto content =
      weightedOneOf<Content>({{50, Contents(Values::kGaussian, inRange(-1, 4), IgnoringLabels())},
                              {25, Contents(Values::kLattice, inRange(-2, 5), IgnoringLabels())},
                              {25, Contents(Values::kSmallLse, inRange(2, 6), IgnoringLabels())}});
  return {{BesideBig(Shapes(std::move(rows), std::move(vocab), HiddenSize())), std::move(content),
           weightedOneOf<Upstream>({{60, UsualUpstream(30)}, {40, HostileUpstream()}}),
           Settings(AnyTemperature())}};
}

std::vector<Ingredients> SpecialValues() {
  auto special = weightedElement<Special>({{14, Special::kHiddenNaN},
                                           {14, Special::kHiddenInf},
                                           {10, Special::kWeightNaN},
                                           {24, Special::kMinusInf},
                                           {16, Special::kMinusInfLabel},
                                           {10, Special::kAllMinusInf},
                                           {12, Special::kPlusInf}});
  return {{Shapes(SeveralRows(), Vocab(), HiddenSize()),
           With(OrdinaryContent(AnyLabels()), std::move(special)), UsualUpstream(30),
           Settings(AnyTemperature())}};
}

std::vector<Ingredients> InvalidLabels() {
  auto content =
      weightedOneOf<Content>({{75, OrdinaryContent(just(Labels::kInvalid))},
                              {25, With(OrdinaryContent(AnyLabels()), just(Special::kTemperature))}});
  return {{Shapes(SeveralRows(), Vocab(), HiddenSize()), std::move(content), UsualUpstream(30),
           Settings(AnyTemperature())}};
}

std::vector<Ingredients> MaskedTiles() {
  auto special = weightedElement<Special>({{65, Special::kMaskedFirst}, {35, Special::kMaskedButOne}});
  auto labels = weightedElement<Labels>(
      {{50, Labels::kRandom}, {25, Labels::kArgmax}, {15, Labels::kLast}, {10, Labels::kSomeIgnored}});
  return {{Shapes(AnyRows(), Vocab(), HiddenSize()),
           With(OrdinaryContent(std::move(labels)), std::move(special)), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> TileLabels() {
  auto labels = weightedElement<Labels>({{60, Labels::kTileEdge}, {40, Labels::kLastTile}});
  return {{UsualShapes(), OrdinaryContent(std::move(labels)), UsualUpstream(40),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> AllIgnored() {
  auto upstream = rc::gen::apply(
      [](Upstream u, kernel::Reduction reduction) {
        u.reduction = reduction;
        return u;
      },
      UsualUpstream(40),
      weightedElement<kernel::Reduction>({{45, kernel::Reduction::kMean},
                                          {20, kernel::Reduction::kSum},
                                          {35, kernel::Reduction::kNone}}));
  return {{Shapes(AnyRows(), Vocab(), HiddenSize()), OrdinaryContent(just(Labels::kAllIgnored)),
           std::move(upstream), Settings(ExactTemperature())}};
}

std::vector<Ingredients> FarIgnoreIndex() {
  return {{Shapes(SeveralRows(), Vocab(), HiddenSize()), OrdinaryContent(just(Labels::kFarIgnored)),
           UsualUpstream(40), Settings(ExactTemperature())}};
}

std::vector<Ingredients> MissingOutputs() {
  auto settings = rc::gen::apply(
      [](Setting s, unsigned want) {
        s.want = want;
        return s;
      },
      Settings(ExactTemperature()),
      weightedOneOf<unsigned>(
          {{50, element<unsigned>(kWantAll & ~kWantEntropy, kWantAll & ~kWantLse,
                                  kWantAll & ~kWantGradHidden, kWantAll & ~kWantGradWeight)},
           {50, inRange<unsigned>(0, kWantAll + 1)}}));
  return {{UsualShapes(), OrdinaryContent(AnyLabels()), UsualUpstream(40), std::move(settings)}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"ignored-rows", Aim::kSharp,
      "ignored rows hold NaN and infinities: a row that is multiplied by zero instead of left out "
      "leaks"},
     IgnoredRows},
    {{"special-values", Aim::kStress,
      "NaN and infinities in rows that count and in weight: what must stay in its row, or in none, "
      "gets "
      "out"},
     SpecialValues},
    {{"invalid-labels", Aim::kStress,
      "labels outside the vocabulary, temperatures of 0 or NaN: that row is NaN, and no other differs"},
     InvalidLabels},
    {{"masked-tiles", Aim::kSharp,
      "whole tiles of -inf logits, or all but one: a difference of two infinite maxima is NaN"},
     MaskedTiles},
    {{"tile-labels", Aim::kSharp,
      "labels at the edges of tiles and in the last, partial one: the label's logit is never picked "
      "up"},
     TileLabels},
    {{"all-ignored", Aim::kSharp,
      "no row counts, under mean as well: 0/0, and outputs that nobody writes"},
     AllIgnored},
    {{"far-ignore-index", Aim::kSharp,
      "ignore_index is 2^32 above a label that counts: compared in 32 bits, the two are the same"},
     FarIgnoreIndex},
    {{"missing-outputs", Aim::kSharp,
      "some outputs are not asked for: what another output needs is not computed, or written all the "
      "same"},
     MissingOutputs},
};

}  // namespace

std::span<const RegimeEntry> DataRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
