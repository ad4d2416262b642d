// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at the dot products: what is rounded, swallowed, truncated or flushed on the way to a
// logit.

#include <utility>

#include "fuzz/regime_table.h"

namespace plumbline::fuzz {

namespace {

using rc::gen::inRange;
using rc::gen::just;
using rc::gen::weightedOneOf;

std::vector<Ingredients> ExactDot() {
  auto content =
      weightedOneOf<Content>({{92, Contents(Values::kLattice, inRange(-2, 6), AnyLabels())},
                              {8, Contents(Values::kConstant, inRange(-4, 8), AnyLabels())}});
  return {{ShapesBesideFew(), std::move(content), UsualUpstream(40), Settings(ExactTemperature())}};
}

std::vector<Ingredients> Cancellation() {
  auto content = weightedOneOf<Content>({{70, Contents(Values::kCancel, inRange(3, 17), AnyLabels())},
                                         {30, Contents(Values::kSwallow, inRange(0, 7), AnyLabels())}});
  return {{UsualShapes(), std::move(content), UsualUpstream(30), Settings(AnyTemperature())}};
}

// Each arithmetic in the shape in which it has the most to lose. Logits lie close enough together that
// no weight is lost beside another: that, too, reaches a bound, by nothing but adding e^-17 to 1.
std::vector<Ingredients> Swallow() {
  const auto settings = Settings(ExactTemperature());
  return {{DeepShapes(), Swallowing(Values::kSwallowFma, inRange(-2, 6)), PlainUpstream(75), settings,
           true, 35},
          {DeepShapes(), Swallowing(Values::kSwallowTensor, inRange(-3, 1)), PlainUpstream(75),
           settings, true, 25},
          {Shapes(inRange<int64_t>(1, 3), inRange<int64_t>(500, 5000), inRange<int64_t>(1, 9)),
           Swallowing(Values::kSwallowSum, TileBits()), PlainUpstream(75), settings, true, 10},
          {LongSumShapes(), Contents(Values::kSwallowGrads, just(0), just(Labels::kFirst)),
           PlainUpstream(85), settings, true, 30}};
}

std::vector<Ingredients> Subnormal() {
  return {{UsualShapes(), Contents(Values::kSubnormal, just(0), AnyLabels()), PlainUpstream(40),
           Settings(AnyTemperature())}};
}

constexpr RegimeEntry kRegimes[] = {
    {{"exact-dot", Aim::kSharp,
      "every dot product is exact in any order: one rounding of a logit is farther off than the bound"},
     ExactDot},
    {{"cancellation", Aim::kStress,
      "products are far larger than their sum, or too small to be added one by one: order and width "
      "matter"},
     Cancellation},
    {{"swallow", Aim::kSharp,
      "small terms vanish one by one beside a large one: an accumulation's error comes near its bound"},
     Swallow},
    {{"subnormal", Aim::kStress,
      "inputs are subnormal: a kernel that flushes them computes with zeros"},
     Subnormal},
};

}  // namespace

std::span<const RegimeEntry> ProductRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
