// SPDX-License-Identifier: Apache-2.0
//
// Recipes by a few factors with few levels each, for designs in which every pair and every triple of
// levels occurs (fuzz/campaign/search/covering.h).

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

enum class Factor : uint8_t {
  kRegime,  // the place in Regimes()
  kFamily,  // of shapes (fuzz/recipe/parts.h)
  kDType,   // of the inputs
  kLayout,  // of weight, of rows and of vectors
  kLabels,  // their pattern
  kGrads,   // of logprob or loss
  kReduction,
  kTemperature,  // none, exact, inexact, by row
};
inline constexpr int kFactors = 8;

// A level of each factor, by its number. kByRegime where the regime alone says what the recipe is.
using Levels = std::array<int, kFactors>;
inline constexpr int kByRegime = -1;

int LevelCount(Factor factor);

// The levels that may occur, by factor; empty: all of them.
using AllowedLevels = std::vector<std::vector<bool>>;

// Returns false if no recipe has both: the regime fixes the factor, or upstream gradients that differ
// by row meet a reduction, whose gradient is a scalar. Symmetric; a != b.
bool CanMeet(Factor a, int level_a, Factor b, int level_b);

// Returns true if the regime fixes the factor: the design leaves it alone. Throws std::invalid_argument
// for an unknown regime.
bool RegimeFixes(std::string_view regime, Factor factor);

// Gives the recipe this level of the factor, which is neither kRegime nor kFamily.
void SetLevel(Factor factor, int level, Recipe* recipe);

// Draws a recipe with these levels, of which every two that are not kByRegime can meet. A pure function
// of its arguments. Throws std::invalid_argument for a level that its factor does not have.
Recipe DrawWithLevels(uint64_t seed, uint64_t index, const Levels& levels);

// Returns the recipe's level, or kByRegime if its regime fixes it or no level is like it. kFamily is
// always kByRegime: shapes of different families may be equal.
int LevelOf(Factor factor, const Recipe& recipe);

}  // namespace plumbline::fuzz
