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

constexpr RegimeEntry kRegimes[] = {
    {{"ignored-rows", Aim::kSharp,
      "ignored rows hold NaN and infinities: a row that is multiplied by zero instead of left out "
      "leaks"},
     [] {
       auto vocab = weightedOneOf<int64_t>({{98, Vocab()}, {2, just<int64_t>(0)}});
       auto rows = weightedOneOf<int64_t>({{15, AnyRows()}, {85, SeveralRows()}});
       auto content =
           weightedOneOf<Content>({{50, Contents(Values::kGaussian, inRange(-1, 4), IgnoringLabels())},
                                   {25, Contents(Values::kLattice, inRange(-2, 5), IgnoringLabels())},
                                   {25, Contents(Values::kSmallLse, inRange(2, 6), IgnoringLabels())}});
       return Ways{
           {.content = std::move(content),
            .shape = BesideBig(Shapes(std::move(rows), std::move(vocab))),
            .upstream = weightedOneOf<Upstream>({{60, UsualUpstream(30)}, {40, HostileUpstream()}}),
            .setting = Settings(AnyTemperature())}};
     }},
    {{"sequences", Aim::kSharp,
      "long ignored prompts, padded tails, packed sequences, one live row among thousands: rows that "
      "are skipped"},
     [] {
       auto patterns = weightedElement<Labels>(
           {{35, Labels::kPrompts}, {30, Labels::kPadded}, {35, Labels::kPacked}});
       auto rows =
           weightedOneOf<int64_t>({{85, inRange<int64_t>(9, 130)}, {15, inRange<int64_t>(130, 700)}});
       return Ways{{.content = OrdinaryContent(std::move(patterns)),
                    .shape = BesideBig(Shapes(std::move(rows))),
                    .weight = 97},
                   {.content = OrdinaryContent(just(Labels::kOneValid)),
                    .shape = Shapes(inRange<int64_t>(1'000, 5'000), inRange<int64_t>(2, 40),
                                    inRange<int64_t>(1, 4)),
                    .own_shape = true,
                    .weight = 3,
                    .only_family = kNoFamily}};
     }},
    {{"special-values", Aim::kStress,
      "NaN and infinities in rows that count and in weight: what must stay in its row, or in none, "
      "gets out"},
     [] {
       auto special = weightedElement<Special>({{14, Special::kHiddenNaN},
                                                {14, Special::kHiddenInf},
                                                {10, Special::kWeightNaN},
                                                {24, Special::kMinusInf},
                                                {16, Special::kMinusInfLabel},
                                                {10, Special::kAllMinusInf},
                                                {12, Special::kPlusInf}});
       return Ways{{.content = With(OrdinaryContent(), Drawn{&Content::special, std::move(special)}),
                    .shape = Shapes(SeveralRows()),
                    .upstream = UsualUpstream(30),
                    .setting = Settings(AnyTemperature())}};
     }},
    {{"invalid-labels", Aim::kStress,
      "labels outside the vocabulary, temperatures of 0 or NaN: that row is NaN, and no other differs"},
     [] {
       auto content = weightedOneOf<Content>(
           {{75, OrdinaryContent(just(Labels::kInvalid))},
            {25, With(OrdinaryContent(), Drawn{&Content::special, just(Special::kTemperature)})}});
       return Ways{{.content = std::move(content),
                    .shape = Shapes(SeveralRows()),
                    .upstream = UsualUpstream(30),
                    .setting = Settings(AnyTemperature())}};
     }},
    {{"masked-tiles", Aim::kSharp,
      "whole tiles of -inf logits, or all but one: a difference of two infinite maxima is NaN"},
     [] {
       auto special =
           weightedElement<Special>({{65, Special::kMaskedFirst}, {35, Special::kMaskedButOne}});
       auto labels = weightedElement<Labels>({{50, Labels::kRandom},
                                              {25, Labels::kArgmax},
                                              {15, Labels::kLast},
                                              {10, Labels::kSomeIgnored}});
       return Ways{{.content = With(OrdinaryContent(std::move(labels)),
                                    Drawn{&Content::special, std::move(special)}),
                    .shape = Shapes(AnyRows())}};
     }},
    {{"tile-labels", Aim::kSharp,
      "labels at the edges of tiles and in the last, partial one: the label's logit is never picked "
      "up"},
     [] {
       auto labels = weightedElement<Labels>({{60, Labels::kTileEdge}, {40, Labels::kLastTile}});
       return Ways{{.content = OrdinaryContent(std::move(labels))}};
     }},
    {{"all-ignored", Aim::kSharp,
      "no row counts, under mean as well: 0/0, and outputs that nobody writes"},
     [] {
       auto reduction = weightedElement<kernel::Reduction>({{45, kernel::Reduction::kMean},
                                                            {20, kernel::Reduction::kSum},
                                                            {35, kernel::Reduction::kNone}});
       return Ways{
           {.content = OrdinaryContent(just(Labels::kAllIgnored)),
            .shape = Shapes(AnyRows()),
            .upstream = With(UsualUpstream(40), Drawn{&Upstream::reduction, std::move(reduction)})}};
     }},
    {{"far-ignore-index", Aim::kSharp,
      "ignore_index is 2^32 above a label that counts: compared in 32 bits, the two are the same"},
     [] {
       return Ways{
           {.content = OrdinaryContent(just(Labels::kFarIgnored)), .shape = Shapes(SeveralRows())}};
     }},
    {{"missing-outputs", Aim::kSharp,
      "some outputs are not asked for: what another output needs is not computed, or written all the "
      "same"},
     [] {
       auto want = weightedOneOf<unsigned>(
           {{50, element<unsigned>(kWantAll & ~kWantEntropy, kWantAll & ~kWantLse,
                                   kWantAll & ~kWantGradHidden, kWantAll & ~kWantGradWeight)},
            {50, inRange<unsigned>(0, kWantAll + 1)}});
       return Ways{
           {.content = OrdinaryContent(),
            .setting = With(Settings(ExactTemperature()), Drawn{&Recipe::want, std::move(want)})}};
     }},
};

}  // namespace

std::span<const RegimeEntry> DataRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
