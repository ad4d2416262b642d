// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at how labels, ignored rows and special values are read, and at what must not leave its
// row.

#include <utility>

#include "fuzz/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

std::vector<Ingredients> IgnoredRows() {
  auto vocab = weightedOneOf<int64_t>({{98, Vocab()}, {2, just<int64_t>(0)}});
  auto rows = weightedOneOf<int64_t>({{15, Rows()}, {85, SeveralRows()}});
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
};

}  // namespace

std::span<const RegimeEntry> DataRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
