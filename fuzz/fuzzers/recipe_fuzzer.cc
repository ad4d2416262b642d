// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz/fuzzers/fuzzers.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

int FuzzRecipe(std::span<const std::byte> bytes) {
  const std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Recipe recipe, again;
  std::string error;
  if (!Parse(line, &recipe, &error)) {
    if (error.empty()) std::abort();
    return -1;
  }
  if (!Parse(Format(recipe), &again, &error) || !(again == recipe)) std::abort();
  // Parse refuses the largest shapes; this is the limit of an input here.
  constexpr int64_t kMost = 1 << 12;
  if (recipe.n > kMost || recipe.v > kMost || recipe.h > kMost ||
      recipe.n * (recipe.v + recipe.h) + recipe.v * recipe.h > kMost ||
      recipe.n * recipe.v * recipe.h > kMost) {
    return 0;
  }
  const OwnedProblem problem = Expand(recipe);
  if (Inconsistency(problem) || !(Expand(recipe) == problem)) std::abort();
  return 0;
}

}  // namespace plumbline::fuzz
