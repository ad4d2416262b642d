// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at the dot products: values that are rounded, swallowed, truncated or flushed on the
// way to a logit.

#include <utility>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::element;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedOneOf;

constexpr RegimeEntry kRegimes[] = {
    {{"exact-dot", Aim::kSharp,
      "every dot product is exact in any order: one rounding of a logit is farther off than the bound"},
     [] {
       auto content = weightedOneOf<Content>({{92, Contents(Values::kLattice, inRange(-2, 6))},
                                              {8, Contents(Values::kConstant, inRange(-4, 8))}});
       return Ways{{.content = std::move(content), .shape = ShapesBesideFew()}};
     }},
    {{"cancellation", Aim::kStress,
      "products are far larger than their sum, or too small to be added one by one: order and width "
      "matter"},
     [] {
       auto content = weightedOneOf<Content>({{70, Contents(Values::kCancel, inRange(3, 17))},
                                              {30, Contents(Values::kSwallow, inRange(0, 7))}});
       return Ways{{.content = std::move(content),
                    .upstream = UsualUpstream(30),
                    .setting = Settings(AnyTemperature())}};
     }},
    {{"swallow", Aim::kSharp,
      "small terms vanish one by one beside a large one: an accumulation's error comes near its bound"},
     [] {
       // Each arithmetic has the shape in which it loses most. Logits lie so close together that no
       // weight is lost beside another: adding e^-17 to 1 would reach a bound too, but not by the loss
       // that is meant.
       return Ways{{.content = Swallowing(Values::kSwallowFma, inRange(-2, 6)),
                    .shape = DeepShapes(),
                    .upstream = PlainUpstream(75),
                    .own_shape = true,
                    .weight = 35},
                   {.content = Swallowing(Values::kSwallowTensor, inRange(-3, 1)),
                    .shape = DeepShapes(),
                    .upstream = PlainUpstream(75),
                    .own_shape = true,
                    .weight = 25},
                   {.content = Swallowing(Values::kSwallowSum, TileBits()),
                    .shape = Shapes(inRange<int64_t>(1, 3), inRange<int64_t>(500, 5000),
                                    inRange<int64_t>(1, 9)),
                    .upstream = PlainUpstream(75),
                    .own_shape = true,
                    .weight = 10},
                   {.content = Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst)),
                    .shape = LongSumShapes(),
                    .upstream = PlainUpstream(85),
                    .own_shape = true,
                    .weight = 30}};
     }},
    {{"subnormal", Aim::kStress,
      "inputs are subnormal: a kernel that flushes them computes with zeros"},
     [] {
       return Ways{{.content = Contents(Values::kSubnormal, just(0)),
                    .upstream = PlainUpstream(40),
                    .setting = Settings(AnyTemperature())}};
     }},
    {{"truncation", Aim::kSharp,
      "addends just under an ulp of the accumulator: rounding toward zero loses each of them whole"},
     [] {
       return Ways{{.content = Swallowing(Values::kTruncate, inRange(-2, 6)),
                    .shape = DeepShapes(),
                    .upstream = PlainUpstream(75),
                    .own_shape = true}};
     }},
    {{"positive-depth", Aim::kSharp,
      "every product is positive and H is deep: a rounding with a bias adds up instead of averaging "
      "out"},
     [] {
       return Ways{{.content = Contents(Values::kPositive, inRange(0, 5)),
                    .shape = DeepShapes(),
                    .upstream = PlainUpstream(60),
                    .own_shape = true}};
     }},
    {{"signed-zeros", Aim::kSharp,
      "zeros of either sign, in whole rows too: a zero taken for empty, or for the sign of a product"},
     [] {
       // The upstream gradients have them too in some.
       return Ways{{.content = Contents(Values::kSignedZeros, inRange(-3, 4)), .weight = 60},
                   {.content = Contents(Values::kSignedZeros, inRange(-3, 4)),
                    .upstream = MostlyOf(Grads::kSignedZeros),
                    .weight = 40}};
     }},
    {{"full-mantissa", Aim::kSharp,
      "every significand ends in 1: inputs cut to TF32, or to two parts of bf16, lose that bit"},
     [] {
       // Most have 32-bit inputs: the narrower ones have nothing to lose where products are exact.
       return Ways{{.content = Contents(Values::kFullBits, inRange(-2, 4)),
                    .setting = MoreOf(kernel::DType::kF32, 70)}};
     }},
    {{"massive-channels", Aim::kSharp,
      "a few channels of hidden are 10^5 times the others, as in large models: the others must not "
      "drown"},
     [] { return Ways{{.content = Contents(Values::kMassive, inRange(-2, 4))}}; }},
    {{"low-rank", Aim::kSharp,
      "rows are copies of each other, or 0: equal rows have equal bits, wherever they lie"},
     [] { return Ways{{.content = Contents(Values::kLowRank, inRange(-2, 4))}}; }},
    {{"bit-patterns", Aim::kStress,
      "significands of runs and single bits at all exponents: splitting, packing and widening of bits"},
     [] {
       auto exp =
           weightedOneOf<int>({{70, inRange(0, 5)}, {20, inRange(5, 12)}, {10, inRange(12, 61)}});
       return Ways{
           {.content = Contents(Values::kBitPatterns, std::move(exp)), .upstream = PlainUpstream(40)}};
     }},
    {{"all-exponents", Aim::kStress,
      "every exponent is as likely, subnormals too: what is only right for values of order 1"},
     [] {
       return Ways{
           {.content = Contents(Values::kAllExponents, inRange(-2, 4)), .upstream = PlainUpstream(40)}};
     }},
    {{"deep-hidden", Aim::kSharp,
      "H from 2 100 to 8 192, as models have it: loops, stages and sums over the whole depth"},
     [] {
       auto content = weightedOneOf<Content>({{40, Contents(Values::kLattice, inRange(-1, 4))},
                                              {30, Contents(Values::kGaussian, inRange(-1, 4))},
                                              {15, Contents(Values::kPositive, inRange(0, 4))},
                                              {15, Contents(Values::kMassive, inRange(-2, 4))}});
       return Ways{{.content = std::move(content), .shape = DeepHiddenShapes(), .own_shape = true}};
     }},
    {{"depth-tails", Aim::kSharp,
      "H is 1, or beside a multiple of a block: the last, partial step of the dot product"},
     [] {
       // Depths at which the last block of a loop of 8, 16, 32, 64 or 128 is partial.
       auto depth =
           weightedOneOf<int64_t>({{15, just<int64_t>(1)},
                                   {45, element<int64_t>(7, 9, 15, 16, 17, 31, 33)},
                                   {40, element<int64_t>(63, 65, 95, 97, 127, 129, 255, 257)}});
       auto content = weightedOneOf<Content>({{60, Contents(Values::kLattice, inRange(-1, 4))},
                                              {40, Contents(Values::kPositive, inRange(0, 4))}});
       return Ways{{.content = std::move(content),
                    .shape = Shapes(AnyRows(), Vocab(), std::move(depth)),
                    .own_shape = true}};
     }},
};

}  // namespace

std::span<const RegimeEntry> ProductRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
