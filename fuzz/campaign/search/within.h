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
// largest case of other targets. Beyond kMostGrown V is cut; kLargeVocabulary and more stays, as one V
// of some thousands in kLargeEvery does, up to kMostKept. Beyond that H of a large vocabulary is cut,
// and V last.

#pragma once

#include <cstdint>
#include <string_view>

#include "fuzz/recipe/levels.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {

// Costs by CostOf. The plainest kernel of tests/fuzz/honest, three calls on a busy machine, took 12 s
// for 3e9 and 54 s for 6e9 (N 256, V 151 937, H 8; N 128, V 131 072, H 64): kMostKept is within a
// deadline of 20 s.
inline constexpr double kMostGrown = 1e7, kMostKept = 2e9;
inline constexpr uint64_t kLargeEvery = 4;

// Returns the time of a case in multiply-adds, about. Each product of a logit counts five times: three
// passes of the target, and judging. A logit costs 40 beside its products, a weight 20 to make and
// judge.
double CostOf(int64_t n, int64_t v, int64_t h);

// Returns the recipe with N, V and H in the target's multiples; H, then V, is cut where the case costs
// more than kMostKept.
Recipe ShapeWithin(const Capabilities& can, Recipe recipe);

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
