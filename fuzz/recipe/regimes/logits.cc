// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at the softmax: masks, running maxima, offsets, and the digits that the logarithm
// keeps.

#include <algorithm>
#include <cmath>
#include <cstdlib>
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
    {{"ragged-tail", Aim::kSharp,
      "V is no multiple of a tile and lse is small: a column past the end, read as 0, outweighs the "
      "real ones"},
     [] {
       auto content = weightedOneOf<Content>({{75, Contents(Values::kSmallLse, inRange(2, 7))},
                                              {15, Contents(Values::kAllNegative, inRange(0, 4))},
                                              {10, Contents(Values::kConstant, inRange(0, 5))}});
       return Ways{{.content = std::move(content),
                    .shape = BesideBig(Shapes(AnyRows(), RaggedVocab())),
                    .upstream = UsualUpstream(30),
                    .setting = Settings(AnyTemperature())}};
     }},
    {{"all-negative", Aim::kSharp,
      "every logit is far below 0: a running maximum that starts at 0 underflows all of them"},
     [] {
       auto depth = weightedOneOf<int>({{20, inRange(4, 7)}, {80, inRange(7, 15)}});
       return Ways{{.content = Contents(Values::kAllNegative, std::move(depth)),
                    .upstream = UsualUpstream(30),
                    .setting = Settings(AnyTemperature())}};
     }},
    {{"common-offset", Aim::kSharp,
      "exact integer logits share a large offset: x_y - lse keeps only what the offset leaves of 24 "
      "bits"},
     [] {
       auto offset = weightedOneOf<int>({{20, inRange(4, 9)}, {80, inRange(9, 21)}});
       return Ways{
           {.content = Contents(Values::kOffset, std::move(offset)), .upstream = UsualUpstream(30)}};
     }},
    {{"confident-label", Aim::kSharp,
      "the label has all but 2^-k of the probability: p rounded before 1 is subtracted loses the "
      "gradient"},
     [] {
       auto labels = weightedElement<Labels>({{86, Labels::kArgmax},
                                              {8, Labels::kRandom},
                                              {3, Labels::kFirst},
                                              {3, Labels::kSomeIgnored}});
       return Ways{{.content = Contents(Values::kConfident, ConfidentBits(), std::move(labels)),
                    .shape = ShapesBesideFew(),
                    .upstream = UsualUpstream(50)}};
     }},
    {{"large-vocabulary", Aim::kSharp,
      "V up to 262 145: the depth of the sum over the vocabulary, and what it swallows, is what "
      "counts"},
     [] {
       auto content =
           weightedOneOf<Content>({{50, Swallowing(Values::kSwallowSum, TileBits())},
                                   {15, Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst))},
                                   {10, Contents(Values::kGaussian, inRange(-1, 4))},
                                   {15, Contents(Values::kSmallLse, inRange(2, 6))},
                                   {10, Contents(Values::kLattice, inRange(-2, 4))}});
       // The largest vocabularies are rare, and level one has one case of them.
       auto largest = Shapes(just<int64_t>(1), element<int64_t>(131'072, 151'936, 151'937, 152'064),
                             inRange<int64_t>(1, 5));
       // One of these takes a second, so one case in 60 000 has them.
       auto deeper =
           rc::gen::map(Shapes(just<int64_t>(1), element<int64_t>(256'000, 256'001, 262'144, 262'145),
                               inRange<int64_t>(9, 65)),
                        [](Shape s) {
                          s.big = true;
                          return s;
                        });
       return Ways{{.content = content,
                    .shape = LargeVocabularyShapes(),
                    .upstream = PlainUpstream(60),
                    .own_shape = true,
                    .weight = 9'790},
                   {.content = content,
                    .shape = std::move(deeper),
                    .upstream = PlainUpstream(60),
                    .own_shape = true,
                    .weight = 10,
                    .only_family = kNoFamily},
                   {.content = content,
                    .shape = std::move(largest),
                    .upstream = PlainUpstream(60),
                    .own_shape = true,
                    .weight = 200,
                    .only_family = kLargeVocabularyFamily}};
     }},
    {{"huge", Aim::kStress,
      "logits up to the largest that are judged: sentinels, overflow and infinite differences"},
     [] {
       auto short_of = weightedOneOf<int>({{15, just(0)}, {45, inRange(1, 9)}, {40, inRange(9, 61)}});
       return Ways{
           {.content = Contents(Values::kHuge, std::move(short_of)), .upstream = PlainUpstream(40)}};
     }},
    {{"rising-maxima", Aim::kSharp,
      "each tile has a new maximum: a sum that is not rescaled, or rescaled twice, keeps the wrong "
      "weight"},
     [] { return Ways{{.content = Contents(Values::kRising, inRange(-2, 6))}}; }},
    {{"falling-maxima", Aim::kSharp,
      "the first tile holds the maximum: one that starts anew in each tile, or drops the first, is "
      "lost"},
     [] { return Ways{{.content = Contents(Values::kFalling, inRange(-2, 6))}}; }},
    {{"zigzag-maxima", Aim::kSharp,
      "maxima rise in every other tile: a rescale by the wrong difference turns weights above 1"},
     [] { return Ways{{.content = Contents(Values::kZigzag, inRange(-2, 6))}}; }},
    {{"ties", Aim::kSharp,
      "several columns share the maximum, beside tile edges as well: each must count, once"},
     [] {
       return Ways{
           {.content = Contents(Values::kTies, inRange(0, 13)), .weight = 65},
           {.content = Contents(Values::kConstant, inRange(-4, 8)),
            .shape = Shapes(AnyRows(), element<int64_t>(2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
            .weight = 35}};
     }},
    {{"ex2-underflow", Aim::kSharp,
      "weights between 2^-126 and 2^-150: an exponential that flushes subnormals drops their gradient"},
     [] {
       // Weights this small affect only the gradients, and only if those are scaled up.
       auto wide = weightedElement<Grads>({{60, Grads::kWide}, {40, Grads::kRandom}});
       auto entropy = weightedElement<Grads>({{60, Grads::kNone}, {40, Grads::kWide}});
       return Ways{{.content = Contents(Values::kOutlier, just(0)),
                    .upstream = UpstreamOf(std::move(wide), std::move(entropy))}};
     }},
    {{"ulp-apart", Aim::kSharp,
      "the two largest logits differ in the last bit: which of them is the maximum still decides"},
     [] { return Ways{{.content = Contents(Values::kUlpApart, inRange(0, 11))}}; }},
    {{"heavy-tail", Aim::kSharp,
      "thousands of weights of 2^-24 beside 1: a sum of one accumulator swallows each of them"},
     [] {
       return Ways{{.content = Swallowing(Values::kSwallowSum, inRange(0, 3)),
                    .shape = Shapes(inRange<int64_t>(1, 3), inRange<int64_t>(500, 6000),
                                    inRange<int64_t>(2, 9)),
                    .upstream = PlainUpstream(60),
                    .own_shape = true}};
     }},
    {{"lse-zero", Aim::kSharp,
      "all logits are about -ln V: maximum and logarithm cancel in lse, and a relative error does not"},
     [] { return Ways{{.content = Contents(Values::kLseZero, just(0))}}; }},
    {{"entropy-trap", Aim::kSharp,
      "the entropy is small and lse is large: their difference, lse - sum p x, has no digit left"},
     [] { return Ways{{.content = Contents(Values::kEntropyTrap, inRange(8, 21))}}; }},
    {{"entropy-extremes", Aim::kSharp,
      "the entropy is nearly 0 or nearly ln V: the gradient of the entropy cancels to almost nothing"},
     [] {
       auto content = weightedOneOf<Content>(
           {{50, Contents(Values::kLattice, inRange(-20, -6))},
            {50, Contents(Values::kConfident, inRange(16, 60), just(Labels::kArgmax))}});
       auto entropy = weightedElement<Grads>(
           {{20, Grads::kNone}, {20, Grads::kOnes}, {50, Grads::kRandom}, {10, Grads::kWide}});
       auto grads = weightedElement<Grads>({{50, Grads::kNone}, {50, Grads::kRandom}});
       return Ways{{.content = std::move(content),
                    .shape = ShapesBesideFew(),
                    .upstream = UpstreamOf(std::move(grads), std::move(entropy))}};
     }},
    {{"unlikely-label", Aim::kSharp,
      "the label is the least likely column: its weight is 0 and its logprob is finite"},
     [] {
       auto content = weightedOneOf<Content>(
           {{40, Contents(Values::kSmallLse, inRange(6, 14), just(Labels::kArgmin))},
            {40, Contents(Values::kFalling, inRange(2, 6), just(Labels::kArgmin))},
            {20, Contents(Values::kGaussian, inRange(2, 6), just(Labels::kArgmin))}});
       return Ways{{.content = std::move(content)}};
     }},
    {{"beyond-fp16", Aim::kSharp,
      "logits pass 65504 though no input does: staged in fp16, they are infinite"},
     [] { return Ways{{.content = Contents(Values::kFar, inRange(12, 22))}}; }},
    {{"extreme-temperature", Aim::kSharp,
      "T is 2^-20 or 2^20 and logits are scaled to match: a rounding before the scaling shows"},
     [] {
       const auto at = [](float temperature, int exp) {
         return Ingredients{.content = Contents(Values::kLattice, inRange(exp - 2, exp + 4)),
                            .setting = Settings(just(temperature))};
       };
       return Ways{at(0x1p-20F, -20), at(0x1p+20F, 20), at(0x1p-6F, -6), at(0x1p+12F, 12)};
     }},
    {{"temperature-range", Aim::kStress,
      "T from 2^-100 to 2^100 and logits scaled to match: 1/T, or g/T, beyond what fp32 holds"},
     [] {
       Ways ways;
       for (const int e : {-100, -99, -87, -75, -64, -57, -50, -42, -33, -25, -16, -9,
                           9,    16,  25,  33,  42,  50,  57,  64,  75,  87,  99,  100}) {
         // The last ones leave no room for rows of half or twice the temperature.
         const bool last = e == -100 || e == 100;
         auto setting = Settings(just(std::ldexp(1.0F, e)));
         if (last) setting = With(std::move(setting), Drawn{&Recipe::temperature_per_row, just(false)});
         // In fp16 no logit is that large or small.
         setting = rc::gen::map(std::move(setting), [e](Recipe r) {
           if (std::abs(e) > 12 && r.dtype == kernel::DType::kF16) r.dtype = kernel::DType::kBf16;
           return r;
         });
         auto exp = inRange(std::max(e - 2, -100), std::min(e + 4, 101));
         auto content = std::abs(e) > 55
                            ? Contents(Values::kGaussian, exp)
                            : weightedOneOf<Content>({{50, Contents(Values::kGaussian, exp)},
                                                      {50, Contents(Values::kLattice, exp)}});
         ways.push_back({.content = std::move(content),
                         .upstream = MostlyOf(Grads::kExtreme),
                         .setting = std::move(setting)});
       }
       return ways;
     }},
    {{"temperatures", Aim::kSharp,
      "reciprocals that round worst, and rows that differ by 2^16: 1/T left out, or another row's"},
     [] {
       // The reciprocals of the first ones are off by half an ulp and more; 1 + 2^-23 and its
       // neighbours show whether a reciprocal was taken at all.
       auto worst = element<float>(0x1.555556p-1F, 0x1.fffffep-1F, 0x1.000002p+0F, 0x1.99999ap-1F,
                                   0x1.4ccccdp+0F, 0x1.ffffp+0F, 0x1.3fffep+1F);
       return Ways{
           {.content = OrdinaryContent(),
            .setting = With(
                Settings(std::move(worst)), Drawn{&Recipe::temperature_per_row, Percent(50)},
                Drawn{&Recipe::temperature_spread, weightedElement<int64_t>({{60, 1}, {40, 8}})})}};
     }},
};

}  // namespace

std::span<const RegimeEntry> LogitRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
