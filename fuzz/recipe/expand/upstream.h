// SPDX-License-Identifier: Apache-2.0
//
// The upstream gradients of a recipe.

#pragma once

#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/purpose.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// Makes a gradient [N], or a scalar with the value of element 0. `purpose`: kGrads or kEntropyGrads.
// `poisoned` rows are NaN. A broadcast gradient is never NaN, since all rows read its element 0.
HostTensor MakeGrads(const Recipe& recipe, Grads kind, Purpose purpose, bool scalar,
                     const std::vector<bool>& poisoned);

}  // namespace plumbline::fuzz
