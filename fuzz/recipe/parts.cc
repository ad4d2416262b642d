// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/parts.h"

#include <algorithm>
#include <utility>

namespace plumbline::fuzz {

using kernel::DType;
using kernel::Reduction;
using rc::Gen;
using rc::gen::apply;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

int HalfExp(Values values, int exp) {
  // Kinds whose exp counts bits rather than a magnitude, or a magnitude that both factors share.
  const bool kept = values == Values::kConfident || values == Values::kHuge || values == Values::kFar ||
                    values == Values::kEntropyTrap;
  return kept ? exp : std::min(exp, 14);
}

Gen<bool> Percent(size_t percent) {
  return weightedElement<bool>({{percent, true}, {100 - percent, false}});
}

// --- Shapes. Sizes at which loops end differently: below one tile, at and beside multiples of tiles,
// beyond 8 tiles of 64 columns (several tiles a part), beside blocks of 96 rows and 256 deep.

Gen<int64_t> AnyRows() {
  return weightedOneOf<int64_t>({{2, just<int64_t>(0)},
                                 {14, just<int64_t>(1)},
                                 {76, inRange<int64_t>(2, 9)},
                                 {6, inRange<int64_t>(9, 41)},
                                 {1, element<int64_t>(95, 96, 97, 193)}});
}

Gen<int64_t> SeveralRows() {
  return weightedOneOf<int64_t>({{92, inRange<int64_t>(2, 9)}, {8, inRange<int64_t>(9, 41)}});
}

Gen<int64_t> HiddenSize() {
  const auto beside_16 = apply([](int64_t k, int64_t side) { return 16 * k + side; },
                               inRange<int64_t>(1, 7), element<int64_t>(-1, 0, 1));
  return weightedOneOf<int64_t>({{1, just<int64_t>(0)},
                                 {40, inRange<int64_t>(1, 18)},
                                 {34, beside_16},
                                 {24, inRange<int64_t>(18, 97)},
                                 {1, element<int64_t>(128, 255, 256, 257)}});
}

// tile * k + side, up to about 1500.
Gen<int64_t> TiledVocab(Gen<int64_t> side) {
  return apply(
      [](int64_t tile, int64_t k, int64_t beside) { return tile * std::min(k, 1500 / tile) + beside; },
      element<int64_t>(16, 32, 64, 128, 256),
      weightedOneOf<int64_t>({{85, inRange<int64_t>(1, 6)}, {15, inRange<int64_t>(6, 25)}}),
      std::move(side));
}

Gen<int64_t> Vocab() {
  return weightedOneOf<int64_t>({{8, element<int64_t>(1, 2, 3)},
                                 {62, TiledVocab(element<int64_t>(-1, 0, 1))},
                                 {26, inRange<int64_t>(4, 400)},
                                 {4, inRange<int64_t>(400, 1501)},
                                 {1, element<int64_t>(2047, 2049, 5000)}});
}

// A vocabulary that is never a multiple of 16.
Gen<int64_t> RaggedVocab() {
  return weightedOneOf<int64_t>(
      {{10, inRange<int64_t>(1, 16)},
       {90, TiledVocab(weightedOneOf<int64_t>(
                {{30, just<int64_t>(-1)}, {30, just<int64_t>(1)}, {40, inRange<int64_t>(2, 16)}}))}});
}

Gen<Shape> Shapes(Gen<int64_t> n, Gen<int64_t> v, Gen<int64_t> h) {
  return apply(
      [](int64_t rows, int64_t vocab, int64_t hidden) {
        return Shape{rows, vocab, hidden};
      },
      std::move(n), std::move(v), std::move(h));
}

namespace {

// Shapes that cost kBigCost to 1.15 kBigCost, with V no multiple of 16 and as many rows as that gives.
Gen<Shape> BigCost(Gen<int64_t> sixteens, Gen<int64_t> hidden) {
  return apply(
      [](int64_t blocks, int64_t side, int64_t h, int64_t percent) {
        const int64_t vocab = 16 * blocks + side;
        const int64_t cost = kBigCost + kBigCost / 100 * percent;
        return Shape{cost / (vocab * h) + 1, vocab, h, true};
      },
      std::move(sixteens), inRange<int64_t>(1, 16), std::move(hidden), inRange<int64_t>(0, 15));
}

}  // namespace

// With H a multiple of 512 and few rows, the CUDA operator computes both gradients by one sweep over
// weight, and from 385 columns on in several stretches.
Gen<Shape> BigShapes() {
  return BigCost(inRange<int64_t>(12, 64),
                 weightedOneOf<int64_t>({{60, inRange<int64_t>(64, 257)}, {40, just<int64_t>(512)}}));
}

Gen<Shape> SquareShapes() { return BigCost(inRange<int64_t>(64, 100), inRange<int64_t>(64, 97)); }

Gen<Shape> DeepHiddenShapes() {
  auto depth = weightedOneOf<int64_t>({{60, inRange<int64_t>(2'100, 4'097)},
                                       {20, element<int64_t>(2'304, 3'584, 4'095, 4'096, 4'097, 5'120)},
                                       {20, element<int64_t>(7'168, 8'191, 8'192)}});
  const auto few = [](int64_t rows, int64_t vocab, int64_t hidden) {
    return Shape{rows, std::min(vocab, kMaxWeights / hidden), hidden};
  };
  const auto many = [](int64_t vocab, int64_t hidden) {
    return Shape{1, std::min(vocab, kBigCost / hidden), hidden, true};
  };
  return weightedOneOf<Shape>({{99, apply(few, inRange<int64_t>(1, 4), inRange<int64_t>(2, 41), depth)},
                               {1, apply(many, element<int64_t>(1'025, 2'049, 4'096), depth)}});
}

Gen<Shape> EdgeShapes() {
  return apply(
      [](int64_t which, int64_t rows, int64_t vocab, int64_t hidden) {
        if ((which & 1) != 0) vocab = 1;
        if ((which & 2) != 0) hidden = 0;
        if ((which & 4) != 0) rows = 0;
        return Shape{rows, vocab, hidden};
      },
      weightedElement<int64_t>({{50, 1}, {14, 2}, {8, 3}, {8, 4}, {5, 5}, {5, 6}, {2, 7}, {8, 0}}),
      inRange<int64_t>(1, 20), weightedElement<int64_t>({{60, 2}, {10, 3}, {20, 65}, {10, 0}}),
      inRange<int64_t>(1, 40));
}

Gen<Shape> DeepShapes() {
  return Shapes(
      inRange<int64_t>(1, 5),
      weightedOneOf<int64_t>(
          {{45, just<int64_t>(2)}, {30, inRange<int64_t>(3, 9)}, {25, inRange<int64_t>(9, 70)}}),
      weightedOneOf<int64_t>({{20, inRange<int64_t>(20, 260)},
                              {50, element<int64_t>(256, 512, 1024, 2048)},
                              {30, inRange<int64_t>(260, 2100)}}));
}

Gen<Shape> LongSumShapes() {
  return Shapes(inRange<int64_t>(1, 201),
                weightedOneOf<int64_t>(
                    {{75, element<int64_t>(64, 128, 256, 512)}, {25, inRange<int64_t>(2, 520)}}),
                inRange<int64_t>(1, 7));
}

Gen<Shape> LargeVocabularyShapes() {
  return Shapes(
      inRange<int64_t>(1, 3),
      weightedOneOf<int64_t>({{5, element<int64_t>(131'072, 131'073, 151'936, 151'937, 152'064)},
                              {2, element<int64_t>(256'000, 256'001, 262'144, 262'145)},
                              {13, element<int64_t>(16'384, 32'000, 32'769, 50'257)},
                              {80, inRange<int64_t>(2'000, 9'000)}}),
      inRange<int64_t>(1, 9));
}

Gen<Shape> BesideBig(Gen<Shape> shapes) {
  return weightedOneOf<Shape>({{984, std::move(shapes)}, {8, BigShapes()}, {8, SquareShapes()}});
}

Gen<Shape> UsualShapes() { return BesideBig(Shapes(AnyRows(), Vocab(), HiddenSize())); }

Gen<Shape> ShapesBesideFew() {
  return weightedOneOf<Shape>(
      {{80, UsualShapes()},
       {20, Shapes(inRange<int64_t>(1, 4), inRange<int64_t>(2, 7), inRange<int64_t>(1, 20))}});
}

Gen<Shape> ShapesOfFamily(int family) {
  const auto tile = [](int64_t beside) {
    return rc::gen::map(element<int64_t>(16, 32, 64, 128, 256),
                        [beside](int64_t columns) { return columns + beside; });
  };
  switch (family) {
    case 0:
      return Shapes(just<int64_t>(1), inRange<int64_t>(60, 200), inRange<int64_t>(17, 49));
    case 1:
      return Shapes(inRange<int64_t>(2, 5), tile(-1), inRange<int64_t>(9, 33));
    case 2:
      return Shapes(inRange<int64_t>(2, 5), tile(0), element<int64_t>(16, 32));
    case 3:
      return Shapes(inRange<int64_t>(2, 5), tile(1), inRange<int64_t>(9, 33));
    case 4:
      return Shapes(inRange<int64_t>(2, 7), RaggedVocab(), inRange<int64_t>(9, 49));
    case 5:
      return Shapes(inRange<int64_t>(1, 4), inRange<int64_t>(2, 20), inRange<int64_t>(200, 900));
    case kManyRowsFamily:
      return Shapes(inRange<int64_t>(90, 140), inRange<int64_t>(3, 40), inRange<int64_t>(2, 9));
    default:
      return Shapes(inRange<int64_t>(1, 4), inRange<int64_t>(1, 4), inRange<int64_t>(1, 4));
  }
}

// --- Settings, which vary in the background of every regime.

Gen<float> AnyTemperature() {
  return weightedElement<float>({{78, 1.0F},
                                 {5, 0.5F},
                                 {5, 2.0F},
                                 {4, 0.7F},
                                 {4, 1.3F},
                                 {1, 0.1F},
                                 {1, 10.0F},
                                 {1, 0x1p-20F},
                                 {1, 0x1p+20F}});
}

// Temperatures by which scaling is exact, so that the bound of exact logits stays narrow.
Gen<float> ExactTemperature() { return weightedElement<float>({{88, 1.0F}, {6, 0.5F}, {6, 2.0F}}); }

Gen<Recipe> Settings(Gen<float> temperature) {
  return apply(
      [](DType dtype, DType label_dtype, bool hidden_major, int64_t pad, float t, bool per_row,
         int64_t offset) {
        return Recipe{.dtype = dtype,
                      .label_dtype = label_dtype,
                      .temperature = t,
                      .temperature_per_row = per_row,
                      .hidden_major = hidden_major,
                      .pad = pad,
                      .offset = offset};
      },
      weightedElement<DType>({{40, DType::kBf16}, {30, DType::kF16}, {30, DType::kF32}}),
      weightedElement<DType>({{60, DType::kI64}, {40, DType::kI32}}), Percent(25),
      weightedElement<int64_t>({{70, 0}, {12, 1}, {10, 3}, {8, 8}}), std::move(temperature), Percent(8),
      weightedElement<int64_t>({{88, 0}, {6, 1}, {3, 2}, {3, 5}}));
}

Gen<Recipe> StridedSettings(Gen<float> temperature) {
  return With(Settings(std::move(temperature)), Drawn{&Recipe::hidden_major, Percent(50)},
              Drawn{&Recipe::pad,
                    weightedElement<int64_t>(
                        {{8, 0}, {32, 1}, {15, 2}, {15, 3}, {10, 5}, {10, 7}, {5, 64}, {5, 129}})});
}

Gen<Recipe> MoreOf(DType dtype, size_t percent) {
  return apply(
      [dtype](Recipe setting, bool changed) {
        if (changed) setting.dtype = dtype;
        return setting;
      },
      Settings(ExactTemperature()), Percent(percent));
}

// --- Contents: values, their parameter, and labels.

Gen<Content> Contents(Values values, Gen<int> exp, Gen<Labels> labels) {
  return apply(
      [values](int e, Labels l) {
        return Content{values, e, l};
      },
      std::move(exp), std::move(labels));
}

Gen<Labels> AnyLabels() {
  return weightedElement<Labels>({{50, Labels::kRandom},
                                  {20, Labels::kArgmax},
                                  {13, Labels::kFirst},
                                  {13, Labels::kLast},
                                  {4, Labels::kSomeIgnored}});
}

Gen<Labels> IgnoringLabels() {
  return weightedElement<Labels>(
      {{36, Labels::kSomeIgnored}, {14, Labels::kAllIgnored}, {50, Labels::kIgnoredNaN}});
}

Gen<Content> OrdinaryContent(Gen<Labels> labels) {
  return weightedOneOf<Content>({{50, Contents(Values::kGaussian, inRange(-2, 4), labels)},
                                 {35, Contents(Values::kLattice, inRange(-2, 5), labels)},
                                 {15, Contents(Values::kConstant, inRange(-2, 5), labels)}});
}

Gen<int> ConfidentBits() {
  return weightedOneOf<int>({{60, inRange(1, 13)}, {25, inRange(13, 25)}, {15, inRange(25, 41)}});
}

Gen<Content> Swallowing(Values values, Gen<int> exp) {
  return Contents(
      values, std::move(exp),
      weightedElement<Labels>({{55, Labels::kFirst}, {25, Labels::kArgmax}, {20, Labels::kRandom}}));
}

// log2 of the columns that are added up before they meet the rest: host's 64, and those of other
// kernels.
Gen<int> TileBits() {
  return weightedElement<int>({{50, 6}, {10, 0}, {10, 5}, {15, 7}, {10, 8}, {5, 9}});
}

// --- Upstream gradients.

Gen<Upstream> Upstreams(Gen<Grads> grads, Gen<Grads> entropy_grads, Gen<Reduction> reduction,
                        Gen<int64_t> stride, Gen<bool> fp32) {
  return apply(
      [](Grads g, Grads k, Reduction reduced, int64_t step, bool wide) {
        return Upstream{g, k, reduced, step, wide};
      },
      std::move(grads), std::move(entropy_grads), std::move(reduction), std::move(stride),
      std::move(fp32));
}

Gen<Upstream> UpstreamOf(Gen<Grads> grads, Gen<Grads> entropy_grads) {
  return Upstreams(std::move(grads), std::move(entropy_grads),
                   weightedElement<Reduction>(
                       {{80, Reduction::kNone}, {10, Reduction::kSum}, {10, Reduction::kMean}}),
                   weightedElement<int64_t>({{80, 1}, {8, 0}, {12, 2}}), Percent(50));
}

Gen<Upstream> UsualUpstream(size_t fp32_percent) {
  return Upstreams(
      weightedElement<Grads>({{8, Grads::kNone},
                              {36, Grads::kOnes},
                              {44, Grads::kRandom},
                              {4, Grads::kFirstZero},
                              {4, Grads::kWide},
                              {4, Grads::kOneHot}}),
      weightedElement<Grads>(
          {{55, Grads::kNone}, {10, Grads::kOnes}, {31, Grads::kRandom}, {4, Grads::kWide}}),
      weightedElement<Reduction>({{84, Reduction::kNone}, {8, Reduction::kSum}, {8, Reduction::kMean}}),
      weightedElement<int64_t>({{84, 1}, {8, 0}, {8, 2}}), Percent(fp32_percent));
}

// One gradient alone, both, and each with zeros in the places that a wrong index reads.
Gen<Upstream> HostileUpstream() {
  const auto some = [](Upstream upstream) {
    if (upstream.grads == Grads::kNone && upstream.entropy_grads == Grads::kNone) {
      upstream.entropy_grads = Grads::kRandom;
    }
    return upstream;
  };
  return rc::gen::map(
      Upstreams(weightedElement<Grads>({{14, Grads::kNone},
                                        {6, Grads::kOnes},
                                        {18, Grads::kRandom},
                                        {26, Grads::kFirstZero},
                                        {20, Grads::kWide},
                                        {16, Grads::kOneHot}}),
                weightedElement<Grads>({{44, Grads::kNone},
                                        {6, Grads::kOnes},
                                        {18, Grads::kRandom},
                                        {12, Grads::kFirstZero},
                                        {12, Grads::kWide},
                                        {8, Grads::kOneHot}}),
                weightedElement<Reduction>(
                    {{76, Reduction::kNone}, {12, Reduction::kSum}, {12, Reduction::kMean}}),
                weightedElement<int64_t>({{56, 1}, {16, 0}, {28, 2}}), Percent(40)),
      some);
}

Gen<Upstream> PlainUpstream(size_t fp32_percent) {
  return Upstreams(
      weightedElement<Grads>({{4, Grads::kNone}, {76, Grads::kOnes}, {20, Grads::kRandom}}),
      weightedElement<Grads>({{86, Grads::kNone}, {7, Grads::kOnes}, {7, Grads::kRandom}}),
      weightedElement<Reduction>({{88, Reduction::kNone}, {6, Reduction::kSum}, {6, Reduction::kMean}}),
      weightedElement<int64_t>({{88, 1}, {6, 0}, {6, 2}}), Percent(fp32_percent));
}

Gen<Upstream> MostlyOf(Grads kind) {
  return UpstreamOf(
      weightedElement<Grads>({{85, kind}, {5, Grads::kNone}, {5, Grads::kOnes}, {5, Grads::kRandom}}),
      weightedElement<Grads>({{50, Grads::kNone}, {40, kind}, {10, Grads::kRandom}}));
}

}  // namespace plumbline::fuzz
