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

constexpr RegimeEntry kRegimes[] = {
    {{"edges", Aim::kSharp, "one column, no depth, no rows, and what is just beyond"},
     [] {
       return Ways{{.content = OrdinaryContent(),
                    .shape = EdgeShapes(),
                    .setting = Settings(AnyTemperature()),
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
             .own_shape = true,
             .weight = weight,
             .only_family = only_family};
       };
       return Ways{with(std::move(rows), 98, -1),
                   with(inRange<int64_t>(65'536, 65'600), 2, kManyRowsFamily)};
     }},
    {{"wide-strides", Aim::kSharp,
      "the last row begins beyond 2^31 or 2^32 elements: row times stride in 32 bits points elsewhere"},
     [] {
       auto wide = weightedElement<Wide>(
           {{35, Wide::kHidden}, {35, Wide::kWeight}, {15, Wide::kLabels}, {15, Wide::kGrads}});
       return Ways{
           {.content = OrdinaryContent(),
            .shape = Shapes(inRange<int64_t>(2, 6), inRange<int64_t>(2, 12), inRange<int64_t>(2, 8)),
            .setting = With(Settings(ExactTemperature()), Drawn{&Recipe::wide, std::move(wide)}),
            .own_shape = true}};
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

std::span<const RegimeEntry> ShapeRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
