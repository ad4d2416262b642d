// SPDX-License-Identifier: Apache-2.0
//
// The RapidCheck generators behind fuzz/recipe/regimes.h, for property tests.

#pragma once

#include <rapidcheck.h>

#include <string_view>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// Recipes of one regime, or of all of them in equal parts if the name is empty. An unknown regime is
// named by std::invalid_argument. Built from pure combinators only (gen::exec keeps a process-global
// stack). Does not shrink: fuzz/triage/shrink/shrink.h does that, on tensors.
rc::Gen<Recipe> RecipeGen(std::string_view regime = {});

// Recipes of one regime, in shapes of one of the kShapeFamilies families (fuzz/recipe/parts.h), unless
// its nature fixes the shape; with family -1, in its usual shapes.
rc::Gen<Recipe> FamilyGen(std::string_view regime, int family);

// Recipes of many-logits with N * V beyond 2^31.
rc::Gen<Recipe> LogitsBeyondGen();

}  // namespace plumbline::fuzz
