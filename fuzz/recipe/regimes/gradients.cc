// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at backward: upstream gradients, sums over many rows or columns, and the dtypes of
// intermediate values.

#include <utility>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::Gen;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

std::vector<Ingredients> UpstreamGradients() {
  auto content = weightedOneOf<Content>(
      {{40, Contents(Values::kLattice, inRange(-2, 4), AnyLabels())},
       {40, Contents(Values::kGaussian, inRange(-2, 4), AnyLabels())},
       {20, Contents(Values::kConfident, ConfidentBits(), just(Labels::kArgmax))}});
  return {{BesideBig(Shapes(SeveralRows(), Vocab(), HiddenSize())), std::move(content),
           HostileUpstream(), Settings(ExactTemperature())}};
}

Gen<Content> Plain() {
  return weightedOneOf<Content>({{50, Contents(Values::kLattice, inRange(-2, 4), AnyLabels())},
                                 {50, Contents(Values::kGaussian, inRange(-2, 4), AnyLabels())}});
}

std::vector<Ingredients> EntropyAlone() {
  auto kinds = weightedElement<Grads>({{20, Grads::kOnes},
                                       {50, Grads::kRandom},
                                       {10, Grads::kFirstZero},
                                       {10, Grads::kOneHot},
                                       {10, Grads::kWide}});
  return {{UsualShapes(), Plain(), UpstreamOf(just(Grads::kNone), std::move(kinds)),
           Settings(ExactTemperature())}};
}

std::vector<Ingredients> AlternatingGradients() {
  auto entropy = weightedElement<Grads>({{60, Grads::kNone}, {40, Grads::kAlternating}});
  return {{BesideBig(Shapes(SeveralRows(), Vocab(), HiddenSize())), Plain(),
           UpstreamOf(just(Grads::kAlternating), std::move(entropy)), Settings(ExactTemperature())}};
}

std::vector<Ingredients> TinyGradients() {
  auto settings = rc::gen::apply(
      [](Setting s, bool narrow) {
        if (narrow) s.dtype = kernel::DType::kF16;
        return s;
      },
      Settings(ExactTemperature()), Percent(50));
  auto entropy = weightedElement<Grads>({{60, Grads::kNone}, {40, Grads::kTiny}});
  return {{BesideBig(Shapes(SeveralRows(), Vocab(), HiddenSize())), Plain(),
           UpstreamOf(just(Grads::kTiny), std::move(entropy)), std::move(settings)}};
}

// `mean` divides by the number of rows that count: one of many, or a power of two.
std::vector<Ingredients> Mean() {
  const auto mean = [](size_t fp32_percent) {
    return rc::gen::apply(
        [](Upstream u, bool sum) {
          u.reduction = sum ? kernel::Reduction::kSum : kernel::Reduction::kMean;
          return u;
        },
        UsualUpstream(fp32_percent), Percent(15));
  };
  auto one = weightedElement<Labels>({{50, Labels::kOneValid}, {50, Labels::kSomeIgnored}});
  return {
      {Shapes(SeveralRows(), Vocab(), HiddenSize()), Contents(Values::kLattice, inRange(-2, 4), one),
       mean(40), Settings(ExactTemperature()), false, 50},
      {BesideBig(Shapes(element<int64_t>(2, 4, 8, 16, 32), Vocab(), HiddenSize())), Plain(), mean(40),
       Settings(ExactTemperature()), false, 50}};
}

std::vector<Ingredients> VocabularyChunks() {
  return {{Shapes(inRange<int64_t>(1, 4), inRange<int64_t>(1500, 6000), inRange<int64_t>(2, 10)),
           Plain(), UsualUpstream(60), Settings(ExactTemperature()), true}};
}

std::vector<Ingredients> RowChunks() {
  auto rows =
      weightedOneOf<int64_t>({{80, inRange<int64_t>(40, 250)}, {20, inRange<int64_t>(250, 900)}});
  return {{Shapes(std::move(rows), inRange<int64_t>(2, 10), inRange<int64_t>(1, 9)), Plain(),
           UsualUpstream(60), Settings(ExactTemperature()), true}};
}

std::vector<Ingredients> LabelCollisions() {
  auto labels = weightedElement<Labels>({{60, Labels::kSame}, {40, Labels::kDistinct}});
  return {
      {BesideBig(Shapes(inRange<int64_t>(8, 100), inRange<int64_t>(2, 140), inRange<int64_t>(1, 34))),
       Contents(Values::kLattice, inRange(-2, 4), std::move(labels)), UsualUpstream(50),
       Settings(ExactTemperature())}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"upstream-gradients", Aim::kSharp,
      "upstream gradients differ by row, in scale and in stride: element 0 or stride 1 read for all "
      "shows"},
     UpstreamGradients},
    {{"entropy-alone", Aim::kSharp,
      "only the entropy has an upstream gradient: one that is received and never used is no gradient"},
     EntropyAlone},
    {{"alternating-gradients", Aim::kSharp,
      "upstream gradients of +-2^60 by row: a neighbour's scale, or their sum, in place of a row's "
      "own"},
     AlternatingGradients},
    {{"tiny-gradients", Aim::kSharp,
      "upstream gradients of 2^-30: d_logits kept in fp16 vanish before they are multiplied"},
     TinyGradients},
    {{"mean", Aim::kSharp,
      "mean over one row that counts among many, or over 2^k: divided by the wrong count, or twice"},
     Mean},
    {{"vocabulary-chunks", Aim::kSharp,
      "many chunks of the vocabulary: grad_hidden summed over them in 16 bits loses more with each"},
     VocabularyChunks},
    {{"row-chunks", Aim::kSharp,
      "many rows on few columns: grad_weight summed over chunks of rows in 16 bits loses more with "
      "each"},
     RowChunks},
    {{"label-collisions", Aim::kSharp,
      "all rows have one label, or none shares one: updates of one row of grad_weight that overtake"},
     LabelCollisions},
};

}  // namespace

std::span<const RegimeEntry> GradientRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
