// SPDX-License-Identifier: Apache-2.0
//
// Regimes: named families of recipes, each aimed at one way of being wrong. Drawn with RapidCheck
// generators, so that properties in tests and campaigns draw from the same place.

#ifndef PLUMBLINE_FUZZ_RECIPE_REGIMES_H_
#define PLUMBLINE_FUZZ_RECIPE_REGIMES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// What a regime is for. kSharp: bounds are narrow, so that a small defect shows; nearly every element
// must have a bound that says something. kStress: values at the edge of what is defined, where bounds
// may be wide, and only the difference between right and wrong by far is looked for.
enum class Aim : uint8_t { kSharp, kStress };

std::string_view Name(Aim aim);  // "sharp", "stress"

struct Regime {
  std::string_view name;  // "ragged-tail"
  Aim aim;
  std::string_view why;  // one line that the user sees
};

// From here on a case belongs to the class of large vocabularies (fuzz/recipe/class.h).
inline constexpr int64_t kLargeVocabulary = 131'072;

std::span<const Regime> Regimes();

// kStress for a name that Regimes() does not have: nothing is known of such cases.
Aim AimOf(std::string_view regime);

// The index-th recipe of a campaign: a pure function of its arguments. With an empty regime, indices
// walk over all regimes. Throws std::invalid_argument for any other name that Regimes() does not have.
// Any number of threads may draw at once.
Recipe DrawRecipe(uint64_t campaign_seed, uint64_t index, std::string_view regime = {});

// A first look at everything: one case of every regime in each of a few families of shapes (one row,
// beside a tile, ragged, deep, many rows, least extents), small and cheap. A regime whose nature fixes
// the shape keeps it.
int64_t LevelOneCases();
// Throws std::invalid_argument unless 0 <= index < LevelOneCases().
Recipe DrawLevelOne(uint64_t seed, int64_t index);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_RECIPE_REGIMES_H_
