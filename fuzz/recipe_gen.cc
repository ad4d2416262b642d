// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe_gen.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

// What a case may cost, in multiply-adds of one product of N x V x H. The oracle does about 10^9 of its
// own a second, and a campaign lives from thousands of cases a second, so larger ones are cut in N.
constexpr int64_t kMaxCost = 3'000'000;

struct Shape {
  int64_t n, v, h;
};
struct Content {
  Values values;
  int exp;
  Labels labels;
};
struct Upstream {
  Grads grads, entropy_grads;
  Reduction reduction;
  int64_t stride;
  bool fp32;
};
struct Setting {
  DType dtype, label_dtype;
  bool hidden_major;
  int64_t pad;
  float temperature;
  bool temperature_per_row;
};

Gen<bool> Percent(size_t percent) {
  return weightedElement<bool>({{percent, true}, {100 - percent, false}});
}

// --- Shapes. The sizes at which loops end differently: below one tile, at and beside multiples of
// tiles, beyond 8 tiles of 64 columns (several tiles a part), beside blocks of 96 rows and 256 deep.

Gen<int64_t> Rows() {
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

// Never a multiple of 16.
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

// --- Settings: what varies in the background of every regime.

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

// Scaling by these is exact, so it does not loosen the bound of exact logits.
Gen<float> ExactTemperature() { return weightedElement<float>({{88, 1.0F}, {6, 0.5F}, {6, 2.0F}}); }

Gen<Setting> Settings(Gen<float> temperature) {
  return apply([](DType dtype, DType label_dtype, bool hidden_major, int64_t pad, float t,
                  bool per_row) { return Setting{dtype, label_dtype, hidden_major, pad, t, per_row}; },
               weightedElement<DType>({{40, DType::kBf16}, {30, DType::kF16}, {30, DType::kF32}}),
               weightedElement<DType>({{60, DType::kI64}, {40, DType::kI32}}), Percent(25),
               weightedElement<int64_t>({{70, 0}, {12, 1}, {10, 3}, {8, 8}}), std::move(temperature),
               Percent(8));
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
  if (r.n > 1) r.n = std::clamp<int64_t>(kMaxCost / std::max<int64_t>(r.v * r.h, 1), 1, r.n);
  r.values = content.values;
  r.exp = r.dtype == DType::kF16 ? std::min(content.exp, 14) : content.exp;  // 2^15 and more near 65504
  if (r.values == Values::kConfident) r.exp = content.exp;                   // bits, not a magnitude
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
  return r;
}

Gen<Recipe> Of(std::string_view regime, Gen<Shape> shape, Gen<Content> content, Gen<Upstream> upstream,
               Gen<float> temperature) {
  return apply(
      [name = std::string(regime)](uint64_t seed, const Shape& s, const Content& c, const Upstream& u,
                                   const Setting& b) { return Assemble(name, seed, s, c, u, b); },
      rc::gen::arbitrary<uint64_t>(), std::move(shape), std::move(content), std::move(upstream),
      Settings(std::move(temperature)));
}

Gen<Recipe> OneRegime(std::string_view regime) {
  const auto usual = Shapes(Rows(), Vocab(), HiddenSize());
  if (regime == "ragged-tail") {
    return Of(regime, Shapes(Rows(), RaggedVocab(), HiddenSize()), RaggedTailContent(),
              UsualUpstream(30), AnyTemperature());
  }
  if (regime == "all-negative") {
    return Of(regime, usual, AllNegativeContent(), UsualUpstream(30), AnyTemperature());
  }
  if (regime == "common-offset") {
    return Of(regime, usual, CommonOffsetContent(), UsualUpstream(30), ExactTemperature());
  }
  if (regime == "confident-label") {
    return Of(regime, usual, ConfidentLabelContent(), UsualUpstream(50), ExactTemperature());
  }
  if (regime == "exact-dot") {
    return Of(regime, usual, ExactDotContent(), UsualUpstream(40), ExactTemperature());
  }
  if (regime == "cancellation") {
    return Of(regime, usual, CancellationContent(), UsualUpstream(30), AnyTemperature());
  }
  if (regime == "ignored-rows") {
    const auto vocab = weightedOneOf<int64_t>({{98, Vocab()}, {2, just<int64_t>(0)}});
    const auto rows = weightedOneOf<int64_t>({{15, Rows()}, {85, SeveralRows()}});
    return Of(regime, Shapes(rows, vocab, HiddenSize()), IgnoredRowsContent(),
              weightedOneOf<Upstream>({{60, UsualUpstream(30)}, {40, HostileUpstream()}}),
              AnyTemperature());
  }
  if (regime != "upstream-gradients") {
    throw std::invalid_argument("regime '" + std::string(regime) + "': no generator of that name");
  }
  return Of(regime, Shapes(SeveralRows(), Vocab(), HiddenSize()), UpstreamContent(), HostileUpstream(),
            ExactTemperature());
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
