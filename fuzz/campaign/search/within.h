// SPDX-License-Identifier: Apache-2.0
//
// Recipes within what a target can do. A drawn recipe that needs more is changed, as little as
// possible, until the target can do it; one that needs no more stays as it is. So a target that can do
// everything has the cases of the regimes as they are, and a limited one is not left with a few of
// them.
//
//   dtype, layout, label type, reduction   another one that it has, chosen by the recipe's seed
//   labels, special values, temperatures,  what it cannot do is left out
//   strides, offsets, upstream gradients
//   N, V, H                                multiples: away from the nearest multiple of 16, so that the
//                                          last column of a tile, and the first of the next, stay such
//                                          ("-1" and "+1" become one multiple less or more)
//
// The cost of a case may grow by that: H of 128 with V of 131 072 has 16 times the weights of the
// largest case of other targets. Beyond kMostGrown V is cut, but one case with a large vocabulary in
// kLargeEvery keeps it, up to kMostKept.

#pragma once

#include <cstdint>
#include <string_view>

#include "fuzz/recipe/levels.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {

// In multiply-adds, of which one core does a few 10^9 a second.
inline constexpr double kMostGrown = 1e7, kMostKept = 2e9;
inline constexpr uint64_t kLargeEvery = 4;

// Returns the recipe as the target can do it. Padding and the offset of labels are left to
// WithoutWhatItLacks. A pure function.
Recipe KeepWithin(const Capabilities& can, Recipe recipe);

// Returns false if recipes of the regime lose, within these capabilities, what the regime is about: its
// special values, or the labels, temperatures, layouts or gradients that it fixes, in three draws of
// four or more. A case of it would be one of another regime.
bool Reaches(const Capabilities& can, std::string_view regime);

// Returns false if no recipe within these capabilities has the level, or none of the regime.
bool HasLevel(const Capabilities& can, Factor factor, int level);

}  // namespace plumbline::fuzz
