// SPDX-License-Identifier: Apache-2.0
//
// The tables behind fuzz/recipe/regimes.h: the ingredients of each regime. Internal to the generators.
//
// A regime is a weighting over the recipe grammar, so whatever it draws can be written by hand as well.

#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fuzz/recipe/parts.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {

// The parts that one way of drawing a regime is composed of. What a regime does not name is as in most.
struct Ingredients {
  rc::Gen<Content> content;
  rc::Gen<Shape> shape = UsualShapes();
  rc::Gen<Upstream> upstream = UsualUpstream(40);
  rc::Gen<Recipe> setting = Settings(ExactTemperature());
  bool own_shape = false;  // the nature of the regime fixes the shape: level one keeps it
  size_t weight = 1;       // relative to the others of its regime
  int only_family = -1;    // level one draws this in that family alone, and nothing else there
};
inline constexpr int kNoFamily = -2;  // an only_family that level one does not have
using Ways = std::vector<Ingredients>;

struct RegimeEntry {
  Regime regime;
  Ways (*compose)();
};

// The regimes by what goes wrong: the softmax, the dot products, the gradients, the reading of labels
// and special values, and sizes and addresses.
std::span<const RegimeEntry> LogitRegimes();
std::span<const RegimeEntry> ProductRegimes();
std::span<const RegimeEntry> GradientRegimes();
std::span<const RegimeEntry> DataRegimes();
std::span<const RegimeEntry> ShapeRegimes();

// Draws a recipe of the regime at this place in RegimeTable(), in shapes of one of the kShapeFamilies
// families unless its nature fixes the shape. A pure function of its arguments.
Recipe DrawInFamily(uint64_t seed, uint64_t index, size_t regime, int family);

// All regimes, in that order.
std::span<const RegimeEntry> RegimeTable();

// The cases of many-logits with N * V beyond 2^31, which take minutes; not in the table.
const RegimeEntry& LogitsBeyond();

// The place in RegimeTable() of the regime of this name, or std::invalid_argument.
size_t IndexOf(std::string_view regime);

}  // namespace plumbline::fuzz
