// SPDX-License-Identifier: Apache-2.0
//
// Regimes aimed at sizes and addresses: tails, degenerate extents, strides, and indices that do not
// fit.

#include <utility>

#include "fuzz/regime_table.h"

namespace plumbline::fuzz {

namespace {

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

constexpr RegimeEntry kRegimes[] = {
    {{"edges", Aim::kSharp, "one column, no depth, no rows, and what is just beyond"}, Edges},
    {{"strides", Aim::kSharp,
      "padding, offsets, both layouts and broadcast gradients: a stride that is assumed, not read"},
     Strides},
};

}  // namespace

std::span<const RegimeEntry> ShapeRegimes() { return kRegimes; }

}  // namespace plumbline::fuzz
