// SPDX-License-Identifier: Apache-2.0
//
// Properties of a target, checked on problems drawn from recipes. A property that fails hands its
// problem to the shrinker and leaves the minimised case in a folder (corpus/new of the source tree
// unless the environment variable PLUMBLINE_CORPUS_NEW names another), ready to be replayed and, once
// understood, moved into corpus/.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "fuzz/examine/examine.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz::testing {

// Returns the violation, or nullopt if the property holds (or does not apply).
using Property = std::function<std::optional<Finding>(const OwnedProblem&, const Target&)>;

// The whole of Examine as a property: bounds, signs, determinism, batch invariance, memory.
std::optional<Finding> WithinBounds(const OwnedProblem& problem, const Target& target);

std::filesystem::path NewCasesFolder();

// Returns nullopt if the property holds for the recipe's problem; else a report with the stored,
// minimised case and the lines that reproduce it.
std::optional<std::string> Falsify(const std::string& name, const Property& property,
                                   const Recipe& recipe, const Target& target,
                                   const std::filesystem::path& folder);

}  // namespace plumbline::fuzz::testing
