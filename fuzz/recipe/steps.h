// SPDX-License-Identifier: Apache-2.0
//
// Small steps from a recipe to one nearby. They act on recipes and not on bits: a recipe's line remains
// the whole case, and expansion keeps an element's value while the tensor around it grows.

#ifndef PLUMBLINE_FUZZ_RECIPE_STEPS_H_
#define PLUMBLINE_FUZZ_RECIPE_STEPS_H_

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

// What a case may cost that grew out of a cheaper one, in multiply-adds of one product of N x V x H;
// in elements of weight; and in rows.
inline constexpr int64_t kStepMaxCost = 300'000;
inline constexpr int64_t kStepMaxWeights = 30'000;
inline constexpr int64_t kStepMaxRows = 1'000;

// One step from `recipe`, by `bits`; `other` is what is spliced in. The label of the regime stays. What
// comes out is a recipe that Parse accepts, is no dearer than the constants above or `recipe`, and may
// be `recipe` itself where there is no such step (N below 0, a splice of what is the same).
Recipe Apply(Step step, const Recipe& recipe, const Recipe& other, uint64_t bits);

// One to three steps, most often one.
Recipe TakeStep(const Recipe& recipe, const Recipe& other, uint64_t seed);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_RECIPE_STEPS_H_
