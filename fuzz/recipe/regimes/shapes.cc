// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at sizes and addresses: tails, degenerate extents, strides, and indices that do not
// fit.

#include <utility>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::Gen;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

// The stride of dimensions of one element: 1, or one that must not be used.
Drawn<Recipe, int64_t> SingleStride() {
  return {&Recipe::single_stride, weightedElement<int64_t>({{60, 1}, {25, 2}, {15, 5}})};
}

Ingredients ManyLogits(Gen<int64_t> n, Gen<int64_t> v, Gen<Upstream> upstream) {
  return {.content = OrdinaryContent(element(Labels::kRandom, Labels::kLast, Labels::kSomeIgnored)),
          .shape = rc::gen::map(Shapes(std::move(n), std::move(v), inRange<int64_t>(1, 3)),
                                [](Shape s) {
                                  s.big = true;
                                  return s;
                                }),
          .upstream = std::move(upstream),
          .own_shape = true};
}

// Logits are counted, not kept: N and V are large, and H is at most 2. Two thirds ask for no gradient,
// which takes twice as long.
constexpr RegimeEntry kLogitsBeyond = {
    {"many-logits", Aim::kSharp, ""}, [] {
      const auto none = rc::gen::just(Grads::kNone);
      Ingredients forward = ManyLogits(inRange<int64_t>(66'000, 67'000),
                                       inRange<int64_t>(32'769, 33'000), UpstreamOf(none, none));
      forward.weight = 2;
      return Ways{std::move(forward),
                  ManyLogits(inRange<int64_t>(16'400, 16'500), inRange<int64_t>(131'073, 131'100),
                             UsualUpstream(40))};
    }};

constexpr RegimeEntry kRegimes[] = {
    {{"edges", Aim::kSharp,
      "one column, no depth, no rows, and what is just beyond; a stride of one element means nothing"},
     [] {
       return Ways{{.content = OrdinaryContent(),
                    .shape = EdgeShapes(),
                    .setting = With(Settings(AnyTemperature()), SingleStride()),
                    .own_shape = true}};
     }},
    {{"strides", Aim::kSharp,
      "padding, offsets, both layouts and broadcast gradients: a stride that is assumed, not read"},
     [] {
       return Ways{
           {.content = OrdinaryContent(),
            .upstream = weightedOneOf<Upstream>({{50, UsualUpstream(40)}, {50, HostileUpstream()}}),
            .setting = StridedSettings(ExactTemperature())}};
     }},
    {{"many-rows", Aim::kSharp,
      "more rows than 65 535: what a grid's second and third dimension do not hold"},
     [] {
       // 65 535 is the most blocks that a grid has in y and z. A case with so many rows takes a tenth
       // of a second, so one case in fifty has them, and one of level one.
       auto rows =
           weightedOneOf<int64_t>({{80, inRange<int64_t>(100, 300)},
                                   {20, element<int64_t>(255, 256, 257, 511, 513, 1023, 1025)}});
       const auto with = [](Gen<int64_t> n, size_t weight, int only_family) {
         return Ingredients{
             .content = OrdinaryContent(),
             .shape = Shapes(std::move(n), inRange<int64_t>(1, 4), inRange<int64_t>(1, 3)),
             .setting = With(Settings(ExactTemperature()), SingleStride()),
             .own_shape = true,
             .weight = weight,
             .only_family = only_family};
       };
       return Ways{with(std::move(rows), 98'000, -1),
                   with(inRange<int64_t>(65'536, 65'600), 2'000, kManyRowsFamily)};
     }},
    {{"many-logits", Aim::kSharp,
      "more columns than a tile holds in many rows, N times V beyond 2^31 in one case in 100 000: what "
      "counts logits in 32 bits"},
     [] {
       // The cases beyond 2^31 are LogitsBeyond's.
       return Ways{
           ManyLogits(inRange<int64_t>(20, 60), inRange<int64_t>(300, 1'100), UsualUpstream(40))};
     }},
    {{"wide-strides", Aim::kSharp,
      "the last row begins beyond 2^31 or 2^32 elements: row times stride in 32 bits points elsewhere"},
     [] {
       auto wide = weightedElement<Wide>(
           {{35, Wide::kHidden}, {35, Wide::kWeight}, {15, Wide::kLabels}, {15, Wide::kGrads}});
       const auto with = [](Gen<int64_t> v, Gen<Wide> tensor, size_t weight) {
         return Ingredients{
             .content = OrdinaryContent(),
             .shape = Shapes(inRange<int64_t>(2, 6), std::move(v), inRange<int64_t>(2, 8)),
             .setting = With(Settings(ExactTemperature()), Drawn{&Recipe::wide, std::move(tensor)}),
             .own_shape = true,
             .weight = weight};
       };
       // With a thousand rows of weight and more no single stride is large, and their product is.
       return Ways{with(inRange<int64_t>(2, 12), std::move(wide), 98),
                   with(inRange<int64_t>(1'000, 4'097), rc::gen::just(Wide::kWeight), 2)};
     }},
    {{"row-order", Aim::kSharp,
      "rows lie last to first or are one row for all, labels have a stride: each stride is its own"},
     [] {
       auto setting = With(StridedSettings(ExactTemperature()),
                           Drawn{&Recipe::rows, weightedElement<Rows>({{50, Rows::kReversed},
                                                                       {25, Rows::kBroadcast},
                                                                       {25, Rows::kForward}})},
                           Drawn{&Recipe::label_stride,
                                 weightedElement<int64_t>({{40, 1}, {25, 2}, {15, 3}, {20, 0}})});
       return Ways{
           {.content = OrdinaryContent(),
            .shape = Shapes(SeveralRows()),
            .upstream = weightedOneOf<Upstream>({{50, UsualUpstream(40)}, {50, HostileUpstream()}}),
            .setting = std::move(setting)}};
     }},
    {{"strided-vectors", Aim::kSharp,
      "labels, temperatures, upstream gradients and outputs by row: each vector has its own stride, "
      "and gradients are dense along neither dimension"},
     [] {
       const auto strides = [] {
         return weightedElement<int64_t>({{30, 1}, {35, 2}, {20, 3}, {10, 5}, {5, 64}});
       };
       auto setting =
           With(Settings(ExactTemperature()), Drawn{&Recipe::temperature_per_row, Percent(60)},
                Drawn{&Recipe::label_stride, strides()}, Drawn{&Recipe::temperature_stride, strides()},
                Drawn{&Recipe::output_stride, strides()},
                Drawn{&Recipe::gradient_step, weightedElement<int64_t>({{70, 1}, {20, 2}, {10, 3}})});
       auto upstream =
           With(UsualUpstream(40),
                Drawn{&Upstream::stride, weightedElement<int64_t>({{30, 1}, {15, 0}, {55, 2}})});
       return Ways{{.content = OrdinaryContent(),
                    .shape = Shapes(SeveralRows()),
                    .upstream = std::move(upstream),
                    .setting = std::move(setting)}};
     }},
    {{"long-batches", Aim::kSharp,
      "512 rows and more, of which many run again, alone and as another batch: a row is its own"},
     [] {
       auto rows = weightedOneOf<int64_t>(
           {{80, inRange<int64_t>(512, 800)}, {20, element<int64_t>(512, 513, 1'023, 1'024, 1'025)}});
       return Ways{{.content = OrdinaryContent(),
                    .shape = Shapes(std::move(rows), inRange<int64_t>(2, 40), inRange<int64_t>(1, 13)),
                    .own_shape = true}};
     }},
    {{"misaligned", Aim::kSharp,
      "tensors start at 2, 4 or 8 bytes past a boundary: vector loads that assume more"},
     [] {
       auto setting =
           With(Settings(ExactTemperature()),
                Drawn{&Recipe::offset, element<int64_t>(1, 2, 3, 4, 5, 7, 8, 12, 16)},
                Drawn{&Recipe::pad, weightedElement<int64_t>({{60, 0}, {20, 1}, {10, 3}, {10, 8}})});
       return Ways{{.content = OrdinaryContent(), .setting = std::move(setting)}};
     }},
    {{"small-vocabulary", Aim::kSharp,
      "fewer columns than any tile: the first tile is the last, and mostly empty"},
     [] {
       return Ways{{.content = OrdinaryContent(),
                    .shape = Shapes(AnyRows(), inRange<int64_t>(2, 16)),
                    .own_shape = true}};
     }},
};

}  // namespace

const RegimeEntry& LogitsBeyond() { return kLogitsBeyond; }

std::span<const RegimeEntry> ShapeRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
