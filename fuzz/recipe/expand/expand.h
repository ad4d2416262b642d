// SPDX-License-Identifier: Apache-2.0
//
// Expands a recipe into tensors.

#pragma once

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// Returns the problem that a recipe describes. Only integer and exactly rounded operations make it, no
// libm, so its bits are the same on every machine.
OwnedProblem Expand(const Recipe& recipe);

}  // namespace plumbline::fuzz
