// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at backward: upstream gradients, what is accumulated over many rows or columns, and the
// dtypes of the way there.

#include <utility>

#include "fuzz/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedOneOf;

std::vector<Ingredients> UpstreamGradients() {
  auto content = weightedOneOf<Content>(
      {{40, Contents(Values::kLattice, inRange(-2, 4), AnyLabels())},
       {40, Contents(Values::kGaussian, inRange(-2, 4), AnyLabels())},
       {20, Contents(Values::kConfident, ConfidentBits(), just(Labels::kArgmax))}});
  return {{BesideBig(Shapes(SeveralRows(), Vocab(), HiddenSize())), std::move(content),
           HostileUpstream(), Settings(ExactTemperature())}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"upstream-gradients", Aim::kSharp,
      "upstream gradients differ by row, in scale and in stride: element 0 or stride 1 read for all "
      "shows"},
     UpstreamGradients},
};

}  // namespace

std::span<const RegimeEntry> GradientRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
