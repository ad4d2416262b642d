// SPDX-License-Identifier: Apache-2.0
//
// Regimes: named families of recipes, each aimed at one kind of error. They are drawn with RapidCheck
// generators, so that properties in tests and campaigns draw from the same place.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// The aim of a regime. kSharp: bounds are narrow, so that a small error shows, and nearly every element
// must have a bound that can fail. kStress: values are at the edge of what is defined, bounds may be
// wide, and only gross errors are looked for.
enum class Aim : uint8_t { kSharp, kStress };

std::string_view Name(Aim aim);  // "sharp", "stress"

struct Regime {
  std::string_view name;  // "ragged-tail"
  Aim aim;
  std::string_view why;  // one line that the user sees
};

// From this vocabulary on a case belongs to the class of large vocabularies (fuzz/recipe/class.h).
inline constexpr int64_t kLargeVocabulary = 131'072;

std::span<const Regime> Regimes();

// Returns kStress for a name that Regimes() does not have, since nothing is known of such cases.
Aim AimOf(std::string_view regime);

// The index-th recipe of a campaign: a pure function of its arguments. With an empty regime, indices
// walk over all regimes. One index in 50 000, from 10 000 on, has N * V beyond 2^31. Throws
// std::invalid_argument for any other name that Regimes() does not have. Any number of threads may draw
// at once.
Recipe DrawRecipe(uint64_t campaign_seed, uint64_t index, std::string_view regime = {});

// The number of cases in level one, a first look at everything: one case of every regime in each of a
// few families of shapes (one row, beside a tile, ragged, deep, many rows, least extents), small and
// cheap. A regime whose nature fixes the shape keeps it.
int64_t LevelOneCases();
// The index-th case of level one. Throws std::invalid_argument unless 0 <= index < LevelOneCases().
Recipe DrawLevelOne(uint64_t seed, int64_t index);

}  // namespace plumbline::fuzz
