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
