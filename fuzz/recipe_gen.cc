// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe_gen.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/recipe_parts.h"
#include "fuzz/regimes.h"

namespace plumbline::fuzz {

namespace {

using kernel::DType;
using kernel::Reduction;
using rc::Gen;
using rc::gen::apply;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

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

Gen<int> ConfidentBits() {
  return weightedOneOf<int>({{60, inRange(1, 13)}, {25, inRange(13, 25)}, {15, inRange(25, 41)}});
}

Gen<Content> RaggedTailContent() {
  return weightedOneOf<Content>({{75, Contents(Values::kSmallLse, inRange(2, 7), AnyLabels())},
                                 {15, Contents(Values::kAllNegative, inRange(0, 4), AnyLabels())},
                                 {10, Contents(Values::kConstant, inRange(0, 5), AnyLabels())}});
}

Gen<Content> AllNegativeContent() {
  const auto depth = weightedOneOf<int>({{20, inRange(4, 7)}, {80, inRange(7, 15)}});
  return Contents(Values::kAllNegative, depth, AnyLabels());
}

Gen<Content> CommonOffsetContent() {
  const auto offset = weightedOneOf<int>({{20, inRange(4, 9)}, {80, inRange(9, 21)}});
  return Contents(Values::kOffset, offset, AnyLabels());
}

Gen<Content> ConfidentLabelContent() {
  return Contents(Values::kConfident, ConfidentBits(),
                  weightedElement<Labels>({{86, Labels::kArgmax},
                                           {8, Labels::kRandom},
                                           {3, Labels::kFirst},
                                           {3, Labels::kSomeIgnored}}));
}

Gen<Content> ExactDotContent() {
  return weightedOneOf<Content>({{92, Contents(Values::kLattice, inRange(-2, 6), AnyLabels())},
                                 {8, Contents(Values::kConstant, inRange(-4, 8), AnyLabels())}});
}

Gen<Content> CancellationContent() {
  return weightedOneOf<Content>({{70, Contents(Values::kCancel, inRange(3, 17), AnyLabels())},
                                 {30, Contents(Values::kSwallow, inRange(0, 7), AnyLabels())}});
}

Gen<Content> IgnoredRowsContent() {
  return weightedOneOf<Content>({{50, Contents(Values::kGaussian, inRange(-1, 4), IgnoringLabels())},
                                 {25, Contents(Values::kLattice, inRange(-2, 5), IgnoringLabels())},
                                 {25, Contents(Values::kSmallLse, inRange(2, 6), IgnoringLabels())}});
}

Gen<Content> UpstreamContent() {
  return weightedOneOf<Content>(
      {{40, Contents(Values::kLattice, inRange(-2, 4), AnyLabels())},
       {40, Contents(Values::kGaussian, inRange(-2, 4), AnyLabels())},
       {20, Contents(Values::kConfident, ConfidentBits(), just(Labels::kArgmax))}});
}

Gen<Content> Swallowing(Values values, Gen<int> exp) {
  return Contents(
      values, std::move(exp),
      weightedElement<Labels>({{55, Labels::kFirst}, {25, Labels::kArgmax}, {20, Labels::kRandom}}));
}

// log2 of the columns that are added up before they meet the rest: host's 64, and what others have.
Gen<int> TileBits() {
  return weightedElement<int>({{50, 6}, {10, 0}, {10, 5}, {15, 7}, {10, 8}, {5, 9}});
}

Gen<Content> LargeVocabularyContent() {
  return weightedOneOf<Content>({{50, Swallowing(Values::kSwallowSum, TileBits())},
                                 {15, Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst))},
                                 {10, Contents(Values::kGaussian, inRange(-1, 4), AnyLabels())},
                                 {15, Contents(Values::kSmallLse, inRange(2, 6), AnyLabels())},
                                 {10, Contents(Values::kLattice, inRange(-2, 4), AnyLabels())}});
}

Gen<Content> OrdinaryContent(Gen<Labels> labels) {
  return weightedOneOf<Content>({{50, Contents(Values::kGaussian, inRange(-2, 4), labels)},
                                 {35, Contents(Values::kLattice, inRange(-2, 5), labels)},
                                 {15, Contents(Values::kConstant, inRange(-2, 5), labels)}});
}

Gen<Content> With(Gen<Content> content, Gen<Special> special) {
  return apply(
      [](Content c, Special s) {
        c.special = s;
        return c;
      },
      std::move(content), std::move(special));
}

Gen<Content> SpecialValuesContent() {
  return With(OrdinaryContent(AnyLabels()), weightedElement<Special>({{14, Special::kHiddenNaN},
                                                                      {14, Special::kHiddenInf},
                                                                      {10, Special::kWeightNaN},
                                                                      {24, Special::kMinusInf},
                                                                      {16, Special::kMinusInfLabel},
                                                                      {10, Special::kAllMinusInf},
                                                                      {12, Special::kPlusInf}}));
}

Gen<Content> InvalidLabelsContent() {
  return weightedOneOf<Content>(
      {{75, OrdinaryContent(just(Labels::kInvalid))},
       {25, With(OrdinaryContent(AnyLabels()), just(Special::kTemperature))}});
}

// --- Together.

// A broadcast or scalar gradient is its element 0 alone: kinds that differ by row say nothing there.
bool DiffersByRow(Grads grads) { return grads == Grads::kFirstZero || grads == Grads::kOneHot; }

Recipe Assemble(const std::string& regime, uint64_t seed, const Shape& shape, const Content& content,
                const Upstream& upstream, const Setting& setting) {
  Recipe r;
  r.regime = regime;
  r.seed = seed;
  r.dtype = setting.dtype;
  r.n = shape.n;
  r.v = shape.v;
  r.h = shape.h;
  if (shape.big) {
    if (r.dtype == DType::kF32 && seed % 8 != 0) r.dtype = DType::kBf16;
  } else {
    r.h = std::min(r.h, std::max<int64_t>(kMaxWeights / std::max<int64_t>(r.v, 1), 8));
    if (r.n > 1) r.n = std::clamp<int64_t>(kMaxCost / std::max<int64_t>(r.v * r.h, 1), 1, r.n);
  }
  r.values = content.values;
  r.exp = r.dtype == DType::kF16 ? std::min(content.exp, 14) : content.exp;  // 2^15 and more near 65504
  // Bits and not a magnitude.
  if (r.values == Values::kConfident || r.values == Values::kHuge) r.exp = content.exp;
  r.labels = r.v == 0 ? Labels::kAllIgnored : content.labels;
  r.label_dtype = setting.label_dtype;
  r.reduction = upstream.reduction;
  r.grads = upstream.grads;
  r.entropy_grads = upstream.entropy_grads;
  r.grad_stride = upstream.stride;
  if (r.reduction != Reduction::kNone && DiffersByRow(r.grads)) r.grads = Grads::kRandom;
  if (DiffersByRow(r.grads) || DiffersByRow(r.entropy_grads)) {
    r.grad_stride = std::max<int64_t>(r.grad_stride, 1);
  }
  r.temperature = setting.temperature;
  r.temperature_per_row = setting.temperature_per_row;
  r.hidden_major = setting.hidden_major;
  r.pad = setting.pad;
  r.fp32_grads = upstream.fp32;
  r.special = content.special;
  return r;
}

Gen<Recipe> Of(std::string_view regime, Gen<Shape> shape, Gen<Content> content, Gen<Upstream> upstream,
               Gen<Setting> setting) {
  return apply(
      [name = std::string(regime)](uint64_t seed, const Shape& s, const Content& c, const Upstream& u,
                                   const Setting& b) { return Assemble(name, seed, s, c, u, b); },
      rc::gen::arbitrary<uint64_t>(), std::move(shape), std::move(content), std::move(upstream),
      std::move(setting));
}

// Each arithmetic in the shape in which it has the most to lose. Logits lie close enough together that
// no weight is lost beside another: that, too, reaches a bound, by nothing but adding e^-17 to 1.
Gen<Recipe> Swallow(std::string_view regime) {
  const auto settings = Settings(ExactTemperature());
  return weightedOneOf<Recipe>(
      {{35, Of(regime, DeepShapes(), Swallowing(Values::kSwallowFma, inRange(-2, 6)), PlainUpstream(75),
               settings)},
       {25, Of(regime, DeepShapes(), Swallowing(Values::kSwallowTensor, inRange(-3, 1)),
               PlainUpstream(75), settings)},
       {10,
        Of(regime, Shapes(inRange<int64_t>(1, 3), inRange<int64_t>(500, 5000), inRange<int64_t>(1, 9)),
           Swallowing(Values::kSwallowSum, TileBits()), PlainUpstream(75), settings)},
       {30, Of(regime, LongSumShapes(), Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst)),
               PlainUpstream(85), settings)}});
}

Gen<Recipe> OneRegime(std::string_view regime) {
  const auto beside_big = [](Gen<Shape> shapes) {
    return weightedOneOf<Shape>({{98, std::move(shapes)}, {2, BigShapes()}});
  };
  const auto usual = beside_big(Shapes(Rows(), Vocab(), HiddenSize()));
  // Where every logit is exact, sums of few terms are what comes near its bound.
  const auto beside_few = weightedOneOf<Shape>(
      {{80, usual},
       {20, Shapes(inRange<int64_t>(1, 4), inRange<int64_t>(2, 7), inRange<int64_t>(1, 20))}});
  const auto any = Settings(AnyTemperature()), exact = Settings(ExactTemperature());
  if (regime == "ragged-tail") {
    return Of(regime, beside_big(Shapes(Rows(), RaggedVocab(), HiddenSize())), RaggedTailContent(),
              UsualUpstream(30), any);
  }
  if (regime == "all-negative") {
    return Of(regime, usual, AllNegativeContent(), UsualUpstream(30), any);
  }
  if (regime == "common-offset") {
    return Of(regime, usual, CommonOffsetContent(), UsualUpstream(30), exact);
  }
  if (regime == "confident-label") {
    return Of(regime, beside_few, ConfidentLabelContent(), UsualUpstream(50), exact);
  }
  if (regime == "exact-dot") {
    return Of(regime, beside_few, ExactDotContent(), UsualUpstream(40), exact);
  }
  if (regime == "cancellation") {
    return Of(regime, usual, CancellationContent(), UsualUpstream(30), any);
  }
  if (regime == "ignored-rows") {
    const auto vocab = weightedOneOf<int64_t>({{98, Vocab()}, {2, just<int64_t>(0)}});
    const auto rows = weightedOneOf<int64_t>({{15, Rows()}, {85, SeveralRows()}});
    return Of(regime, beside_big(Shapes(rows, vocab, HiddenSize())), IgnoredRowsContent(),
              weightedOneOf<Upstream>({{60, UsualUpstream(30)}, {40, HostileUpstream()}}), any);
  }
  if (regime == "upstream-gradients") {
    return Of(regime, beside_big(Shapes(SeveralRows(), Vocab(), HiddenSize())), UpstreamContent(),
              HostileUpstream(), exact);
  }
  if (regime == "swallow") return Swallow(regime);
  if (regime == "large-vocabulary") {
    return Of(regime, LargeVocabularyShapes(), LargeVocabularyContent(), PlainUpstream(60), exact);
  }
  if (regime == "special-values") {
    return Of(regime, Shapes(SeveralRows(), Vocab(), HiddenSize()), SpecialValuesContent(),
              UsualUpstream(30), any);
  }
  if (regime == "invalid-labels") {
    return Of(regime, Shapes(SeveralRows(), Vocab(), HiddenSize()), InvalidLabelsContent(),
              UsualUpstream(30), any);
  }
  if (regime == "subnormal") {
    return Of(regime, usual, Contents(Values::kSubnormal, just(0), AnyLabels()), PlainUpstream(40),
              any);
  }
  if (regime == "huge") {
    const auto short_of =
        weightedOneOf<int>({{15, just(0)}, {45, inRange(1, 9)}, {40, inRange(9, 61)}});
    return Of(regime, usual, Contents(Values::kHuge, short_of, AnyLabels()), PlainUpstream(40), exact);
  }
  if (regime == "edges") {
    return Of(regime, EdgeShapes(), OrdinaryContent(AnyLabels()), UsualUpstream(40), any);
  }
  if (regime != "strides") {
    throw std::invalid_argument("regime '" + std::string(regime) + "': no generator of that name");
  }
  return Of(regime, usual, OrdinaryContent(AnyLabels()),
            weightedOneOf<Upstream>({{50, UsualUpstream(40)}, {50, HostileUpstream()}}),
            StridedSettings(ExactTemperature()));
}

}  // namespace

Gen<Recipe> RecipeGen(std::string_view regime) {
  // Neither RapidCheck's size (small at first) nor its shrinking says anything about a recipe.
  const auto fixed = [](Gen<Recipe> gen) {
    return rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, std::move(gen)));
  };
  if (!regime.empty()) return fixed(OneRegime(regime));
  std::vector<Gen<Recipe>> all;
  for (const Regime& r : Regimes()) all.push_back(OneRegime(r.name));
  return fixed(rc::gen::join(rc::gen::elementOf(all)));
}

}  // namespace plumbline::fuzz
