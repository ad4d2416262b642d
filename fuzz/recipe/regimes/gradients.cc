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

Gen<Content> Plain() {
  return weightedOneOf<Content>({{50, Contents(Values::kLattice, inRange(-2, 4))},
                                 {50, Contents(Values::kGaussian, inRange(-2, 4))}});
}

constexpr RegimeEntry kRegimes[] = {
    {{"upstream-gradients", Aim::kSharp,
      "upstream gradients differ by row, in scale and in stride: element 0 or stride 1 read for all "
      "shows"},
     [] {
       auto content = weightedOneOf<Content>(
           {{40, Contents(Values::kLattice, inRange(-2, 4))},
            {40, Contents(Values::kGaussian, inRange(-2, 4))},
            {20, Contents(Values::kConfident, ConfidentBits(), just(Labels::kArgmax))}});
       return Ways{{.content = std::move(content),
                    .shape = BesideBig(Shapes(SeveralRows())),
                    .upstream = HostileUpstream()}};
     }},
    {{"entropy-alone", Aim::kSharp,
      "only the entropy has an upstream gradient: one that is received and never used is no gradient"},
     [] {
       auto kinds = weightedElement<Grads>({{20, Grads::kOnes},
                                            {50, Grads::kRandom},
                                            {10, Grads::kFirstZero},
                                            {10, Grads::kOneHot},
                                            {10, Grads::kWide}});
       return Ways{{.content = Plain(), .upstream = UpstreamOf(just(Grads::kNone), std::move(kinds))}};
     }},
    {{"alternating-gradients", Aim::kSharp,
      "upstream gradients of +-2^60 by row: a neighbour's scale, or their sum, in place of a row's "
      "own"},
     [] {
       auto entropy = weightedElement<Grads>({{60, Grads::kNone}, {40, Grads::kAlternating}});
       return Ways{{.content = Plain(),
                    .shape = BesideBig(Shapes(SeveralRows())),
                    .upstream = UpstreamOf(just(Grads::kAlternating), std::move(entropy))}};
     }},
    {{"tiny-gradients", Aim::kSharp,
      "upstream gradients of 2^-30: d_logits kept in fp16 vanish before they are multiplied"},
     [] {
       auto entropy = weightedElement<Grads>({{60, Grads::kNone}, {40, Grads::kTiny}});
       return Ways{{.content = Plain(),
                    .shape = BesideBig(Shapes(SeveralRows())),
                    .upstream = UpstreamOf(just(Grads::kTiny), std::move(entropy)),
                    .setting = MoreOf(kernel::DType::kF16, 50)}};
     }},
    {{"gradient-range", Aim::kStress,
      "upstream gradients from 2^-140 to 2^120: subnormal, flushed, or scaled by what overflows"},
     [] { return Ways{{.content = Plain(), .upstream = MostlyOf(Grads::kExtreme)}}; }},
    {{"policy-gradients", Aim::kSharp,
      "one advantage for a sequence, clipped rows and prompts at 0: a row's gradient is its own"},
     [] {
       auto labels = weightedElement<Labels>({{40, Labels::kRandom},
                                              {25, Labels::kPrompts},
                                              {20, Labels::kPacked},
                                              {15, Labels::kPadded}});
       auto content =
           weightedOneOf<Content>({{50, Contents(Values::kLattice, inRange(-2, 4), labels)},
                                   {50, Contents(Values::kGaussian, inRange(-2, 4), labels)}});
       auto grads = weightedElement<Grads>(
           {{40, Grads::kAdvantages}, {35, Grads::kClipped}, {25, Grads::kMasked}});
       auto entropy =
           weightedElement<Grads>({{60, Grads::kNone}, {20, Grads::kOnes}, {20, Grads::kMasked}});
       return Ways{{.content = std::move(content),
                    .shape = BesideBig(Shapes(inRange<int64_t>(4, 97))),
                    .upstream = UpstreamOf(std::move(grads), std::move(entropy))}};
     }},
    {{"mean", Aim::kSharp,
      "mean over one row that counts among many, or over 2^k: divided by the wrong count, or twice"},
     [] {
       // `mean` divides by the number of rows that count: one of many, or a power of two.
       const auto mean =
           With(UsualUpstream(40), Drawn{&Upstream::reduction, weightedElement<kernel::Reduction>(
                                                                   {{15, kernel::Reduction::kSum},
                                                                    {85, kernel::Reduction::kMean}})});
       auto one = weightedElement<Labels>({{50, Labels::kOneValid}, {50, Labels::kSomeIgnored}});
       return Ways{{.content = Contents(Values::kLattice, inRange(-2, 4), std::move(one)),
                    .shape = Shapes(SeveralRows()),
                    .upstream = mean,
                    .weight = 50},
                   {.content = Plain(),
                    .shape = BesideBig(Shapes(element<int64_t>(2, 4, 8, 16, 32))),
                    .upstream = mean,
                    .weight = 50}};
     }},
    {{"vocabulary-chunks", Aim::kSharp,
      "many chunks of the vocabulary: grad_hidden summed over them in 16 bits loses more with each"},
     [] {
       return Ways{{.content = Plain(),
                    .shape = Shapes(inRange<int64_t>(1, 4), inRange<int64_t>(1500, 6000),
                                    inRange<int64_t>(2, 10)),
                    .upstream = UsualUpstream(60),
                    .own_shape = true}};
     }},
    {{"row-chunks", Aim::kSharp,
      "many rows on few columns: grad_weight summed over chunks of rows in 16 bits loses more with "
      "each"},
     [] {
       auto rows =
           weightedOneOf<int64_t>({{80, inRange<int64_t>(40, 250)}, {20, inRange<int64_t>(250, 900)}});
       return Ways{{.content = Plain(),
                    .shape = Shapes(std::move(rows), inRange<int64_t>(2, 10), inRange<int64_t>(1, 9)),
                    .upstream = UsualUpstream(60),
                    .own_shape = true}};
     }},
    {{"label-collisions", Aim::kSharp,
      "all rows have one label, or none shares one: updates of one row of grad_weight that overtake"},
     [] {
       auto labels = weightedElement<Labels>({{60, Labels::kSame}, {40, Labels::kDistinct}});
       return Ways{{.content = Contents(Values::kLattice, inRange(-2, 4), std::move(labels)),
                    .shape = BesideBig(Shapes(inRange<int64_t>(8, 100), inRange<int64_t>(2, 140),
                                              inRange<int64_t>(1, 34))),
                    .upstream = UsualUpstream(50)}};
     }},
};

}  // namespace

std::span<const RegimeEntry> GradientRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
