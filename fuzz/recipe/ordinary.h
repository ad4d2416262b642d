// SPDX-License-Identifier: Apache-2.0
//
// Recipes whose values are like those of a trained model: what honest kernels err on them says what a
// kernel may err (fuzz/baseline). On values that are made to reach a bound one honest order of
// summation errs a thousand times another.

#pragma once

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// True for values drawn from a bell, with a confident label or massive channels, without special
// values, of at least 12 rows, 32 columns of hidden and 128 of the vocabulary.
bool IsOrdinary(const Recipe& recipe);

}  // namespace plumbline::fuzz
