// SPDX-License-Identifier: Apache-2.0
//
// The reference against the arbiter on what campaigns run: recipes of every regime, each expanded and
// swept with the contract of `host` and with that of a black box.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fuzz/owned_problem.h"
#include "fuzz/regimes.h"
#include "oracle/contract.h"
#include "tests/oracle/agreement.h"

namespace plumbline::fuzz {
namespace {

// All elements where a regime draws a micro case, some of the others, so that the arbiter's share stays
// even: it takes about 0.2 us times V (H + 130) for each row.
void CompareRegime(std::string_view regime, uint64_t first, uint64_t cases, double row_cost) {
  oracle::Agreement agreement;
  int64_t compared = 0;
  for (uint64_t index = first; index < first + cases; ++index) {
    Recipe recipe = DrawRecipe(17, index, regime);
    // What this regime is about is V; its kinds of values are the same at a size that can be
    // arbitrated.
    if (regime == "large-vocabulary") recipe.v = 300 + recipe.v % 32;
    const double cost = static_cast<double>(recipe.n * recipe.v) * static_cast<double>(recipe.h + 130);
    if (cost > row_cost) continue;
    const OwnedProblem problem = Expand(recipe);
    const int64_t elements = (recipe.n + recipe.v) * recipe.h;
    const int64_t step = 1 + elements / 2000;
    const bool careful = index % 2 == 0;
    oracle::Compare(DenseView(problem), careful ? oracle::CarefulContract() : oracle::Contract{}, step,
                    &agreement);
    ASSERT_EQ(agreement.first, "") << Format(recipe);
    ++compared;
  }
  EXPECT_GT(compared, static_cast<int64_t>(cases / 4)) << regime;
  // One invalid row makes all of grad_weight NaN.
  if (regime != "invalid-labels") {
    EXPECT_GT(agreement.Finite(oracle::Output::kGradWeight), compared) << regime;
  }
  EXPECT_GT(agreement.Attained(oracle::Output::kLse), 0) << regime;
}

// Fails if a value is further from the arbiter's than its radius, or of another class, on anything that
// a regime draws. A new regime is covered as soon as it has a name.
TEST(OracleRegimes, AgreeWithTheArbiter) {
  for (const Regime& regime : Regimes()) {
    CompareRegime(regime.name, 0, 24, 1e5);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(SlowOracleRegimes, AgreeWithTheArbiter) {
  for (const Regime& regime : Regimes()) {
    CompareRegime(regime.name, 1000, 200, 2e6);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace plumbline::fuzz
