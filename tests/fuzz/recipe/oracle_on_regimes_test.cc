// SPDX-License-Identifier: Apache-2.0
//
// Compares the reference with the arbiter on the cases that campaigns run: recipes of every regime,
// each expanded and swept with the contract of `host` and with that of a black box.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/regimes.h"
#include "oracle/contract.h"
#include "tests/oracle/agreement.h"

namespace plumbline::fuzz {
namespace {

// Compares as many cases of the regime as the arbiter computes in `seconds`: it takes about 0.2 us
// times V (H + 130) for a row. In a micro case every element is compared, in the others some. Cases
// that would take more than half of the time are passed over.
void CompareRegime(std::string_view regime, uint64_t first, double seconds) {
  oracle::Agreement agreement;
  int64_t compared = 0;
  for (uint64_t index = first; index < first + 400 && seconds > 0; ++index) {
    const Recipe recipe = DrawRecipe(17, index, regime);
    const double cost =
        0.2e-6 * static_cast<double>(recipe.n * recipe.v) * static_cast<double>(recipe.h + 130);
    if (cost > seconds / 2 && index + 1 < first + 400) continue;
    seconds -= cost + 1e-3;
    const OwnedProblem problem = Expand(recipe);
    const int64_t step = 1 + (recipe.n + recipe.v) * recipe.h / 500;
    const bool careful = index % 2 == 0;
    oracle::Compare(DenseView(problem), careful ? oracle::CarefulContract() : oracle::Contract{}, step,
                    &agreement);
    ASSERT_EQ(agreement.first, "") << Format(recipe);
    ++compared;
  }
  EXPECT_GT(compared, 0) << regime;
  // If no row counts, every output is an exact 0.
  const double least = regime == "all-ignored" ? -1 : 0;
  EXPECT_GT(agreement.Attained(oracle::Output::kLse), least) << regime;
  // A regime may leave no number in a gradient, but only with special values, which are counted.
  EXPECT_GT(agreement.Finite(oracle::Output::kGradWeight) + agreement.special, 0) << regime;
}

// Fails if a value is further from the arbiter's than its radius, or of another class, on any case that
// a regime draws. A new regime is covered as soon as it has a name.
TEST(OracleRegimes, AgreeWithTheArbiter) {
  for (const Regime& regime : Regimes()) {
    CompareRegime(regime.name, 0, 0.03);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(SlowOracleRegimes, AgreeWithTheArbiter) {
  for (const Regime& regime : Regimes()) {
    CompareRegime(regime.name, 1000, 0.3);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace plumbline::fuzz
