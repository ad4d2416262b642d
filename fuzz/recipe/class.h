// SPDX-License-Identifier: Apache-2.0
//
// The class of a case groups cases by how closely their bounds can be expected to be reached, and in
// which way. A campaign keeps totals by class, since one sharp class would hide another that never
// comes near its bound.

#pragma once

#include <compare>
#include <string>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

struct CaseClass {
  std::string name;   // "gaussian", "exact", "confident", "swallow", "large-vocabulary", ...
  std::string aim;    // its regime's: "sharp" or "stress" (fuzz/recipe/regimes.h)
  std::string dtype;  // the inputs'
  std::string grads;  // the gradients'
  auto operator<=>(const CaseClass&) const = default;
};

CaseClass ClassOf(const Recipe& recipe);

}  // namespace plumbline::fuzz
