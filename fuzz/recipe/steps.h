// SPDX-License-Identifier: Apache-2.0
//
// Small steps from a recipe to one nearby. They act on recipes and not on bits: a recipe's line remains
// the whole case, and expansion keeps an element's value while the tensor around it grows.

#pragma once

#include <cstdint>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

enum class Step : uint8_t {
  kSeed,  // other values of the same kind
  kExp,   // the parameter of the values, by 1 or 2
  kRows,  // N, V, H: one more or less, half or double, onto a multiple of 16 or 64 or beside one
  kVocab,
  kHidden,
  kValues,    // the kind of values, its parameter and what is special, of the other recipe
  kLabels,    // ... its labels
  kUpstream,  // ... its upstream gradients and reduction
  kLayout,    // ... its strides, padding and dtypes of labels and gradients
};
inline constexpr int kSteps = 9;

// Limits on the cost of a case that grew out of a cheaper one: in multiply-adds of one product of N x V
// x H, in elements of weight, and in rows.
inline constexpr int64_t kStepMaxCost = 300'000;
inline constexpr int64_t kStepMaxWeights = 30'000;
inline constexpr int64_t kStepMaxRows = 1'000;

// Takes one step from `recipe`, chosen by `bits`; a splice takes its part from `other`. The label of
// the regime stays. The result is a recipe that Parse accepts and that costs no more than the constants
// above or `recipe`. It may be `recipe` itself if there is no such step (N below 0, a splice of equal
// parts).
Recipe Apply(Step step, const Recipe& recipe, const Recipe& other, uint64_t bits);

// Takes one to three steps, most often one.
Recipe TakeStep(const Recipe& recipe, const Recipe& other, uint64_t seed);

}  // namespace plumbline::fuzz
