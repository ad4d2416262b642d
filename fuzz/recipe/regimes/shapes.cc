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

std::vector<Ingredients> Edges() {
  return {{EdgeShapes(), OrdinaryContent(AnyLabels()), UsualUpstream(40), Settings(AnyTemperature()),
           true}};
}

std::vector<Ingredients> Strides() {
  return {{UsualShapes(), OrdinaryContent(AnyLabels()),
           weightedOneOf<Upstream>({{50, UsualUpstream(40)}, {50, HostileUpstream()}}),
           StridedSettings(ExactTemperature())}};
}

// 65 535 is the most blocks that a grid has in y and z. A case with so many rows takes a tenth of a
// second, so one case in fifty has them, and one of level one.
std::vector<Ingredients> ManyRows() {
  auto rows = weightedOneOf<int64_t>(
      {{80, inRange<int64_t>(100, 300)}, {20, element<int64_t>(255, 256, 257, 511, 513, 1023, 1025)}});
  const auto with = [](Gen<int64_t> n, size_t weight, int only_family) {
    return Ingredients{Shapes(std::move(n), inRange<int64_t>(1, 4), inRange<int64_t>(1, 3)),
                       OrdinaryContent(AnyLabels()),
                       UsualUpstream(40),
                       Settings(ExactTemperature()),
                       true,
                       weight,
                       only_family};
  };
  return {with(std::move(rows), 98, -1), with(inRange<int64_t>(65'536, 65'600), 2, kManyRowsFamily)};
}

std::vector<Ingredients> WideStrides() {
  auto settings = rc::gen::apply(
      [](Setting s, Wide wide) {
        s.wide = wide;
        return s;
      },
      Settings(ExactTemperature()),
      weightedElement<Wide>(
          {{35, Wide::kHidden}, {35, Wide::kWeight}, {15, Wide::kLabels}, {15, Wide::kGrads}}));
  return {{Shapes(inRange<int64_t>(2, 6), inRange<int64_t>(2, 12), inRange<int64_t>(2, 8)),
           OrdinaryContent(AnyLabels()), UsualUpstream(40), std::move(settings), true}};
}

std::vector<Ingredients> RowOrder() {
  auto settings = rc::gen::apply(
      [](Setting s, Rows rows, int64_t label_stride) {
        s.rows = rows;
        s.label_stride = label_stride;
        return s;
      },
      StridedSettings(ExactTemperature()),
      weightedElement<Rows>({{50, Rows::kReversed}, {25, Rows::kBroadcast}, {25, Rows::kForward}}),
      weightedElement<int64_t>({{40, 1}, {25, 2}, {15, 3}, {20, 0}}));
  return {{Shapes(SeveralRows(), Vocab(), HiddenSize()), OrdinaryContent(AnyLabels()),
           weightedOneOf<Upstream>({{50, UsualUpstream(40)}, {50, HostileUpstream()}}),
           std::move(settings)}};
}

std::vector<Ingredients> Misaligned() {
  auto settings = rc::gen::apply(
      [](Setting s, int64_t offset, int64_t pad) {
        s.offset = offset;
        s.pad = pad;
        return s;
      },
      Settings(ExactTemperature()), element<int64_t>(1, 2, 3, 4, 5, 7, 8, 12, 16),
      weightedElement<int64_t>({{60, 0}, {20, 1}, {10, 3}, {10, 8}}));
  return {{UsualShapes(), OrdinaryContent(AnyLabels()), UsualUpstream(40), std::move(settings)}};
}

std::vector<Ingredients> SmallVocabulary() {
  return {{Shapes(AnyRows(), inRange<int64_t>(2, 16), HiddenSize()), OrdinaryContent(AnyLabels()),
           UsualUpstream(40), Settings(ExactTemperature()), true}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"edges", Aim::kSharp, "one column, no depth, no rows, and what is just beyond"}, Edges},
    {{"strides", Aim::kSharp,
      "padding, offsets, both layouts and broadcast gradients: a stride that is assumed, not read"},
     Strides},
    {{"many-rows", Aim::kSharp,
      "more rows than 65 535: what a grid's second and third dimension do not hold"},
     ManyRows},
    {{"wide-strides", Aim::kSharp,
      "the last row begins beyond 2^31 or 2^32 elements: row times stride in 32 bits points elsewhere"},
     WideStrides},
    {{"row-order", Aim::kSharp,
      "rows lie last to first or are one row for all, labels have a stride: each stride is its own"},
     RowOrder},
    {{"misaligned", Aim::kSharp,
      "tensors start at 2, 4 or 8 bytes past a boundary: vector loads that assume more"},
     Misaligned},
    {{"small-vocabulary", Aim::kSharp,
      "fewer columns than any tile: the first tile is the last, and mostly empty"},
     SmallVocabulary},
};

}  // namespace

std::span<const RegimeEntry> ShapeRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
