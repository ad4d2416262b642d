// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fuzz/recipe/expand/expand.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

// Fails if failures with different causes cannot be told apart, if the word for one stays in its
// reason, or if it may be no word or the name of an output.
TEST(FailureWord, TellsCausesApart) {
  const testing::Workplace place;
  Recipe recipe;
  std::string error;
  ASSERT_TRUE(Parse("v1 n=1 v=2 h=1", &recipe, &error)) << error;
  const OwnedProblem problem = Expand(recipe);
  int count = 0;
  const auto outcome = [&](const std::string& flags) {
    const auto target =
        LoadTarget(place.Plugin("table.c", "table" + std::to_string(count++), flags), &error);
    EXPECT_TRUE(target) << error;
    return target->Run(DenseView(problem), {});
  };
  EXPECT_EQ(outcome("-DSTATUS=PLUMBLINE_FAILED").failure, "failed");
  EXPECT_EQ(outcome("-DSTATUS=PLUMBLINE_INVALID").failure, "invalid");
  EXPECT_EQ(outcome("-DSTATUS=17").failure, "no-status");
  const std::string failed = "-DSTATUS=PLUMBLINE_FAILED ";
  const RunOutcome told = outcome(failed + R"(-DREASON='"no room\x1f" "NoRoom@tile.c0"')");
  EXPECT_EQ(told.message, "no room");
  EXPECT_EQ(told.failure, "NoRoom@tile.c0");
  EXPECT_EQ(outcome(failed + R"(-DREASON='"no room\x1f" "loss"')").failure, "failed@loss");
  EXPECT_EQ(outcome(failed + R"(-DREASON='"no room\x1f" "A b:c@/d"')").failure, "A-b-c@-d");
  EXPECT_EQ(outcome(failed + R"(-DREASON='"no room\x1f"')").failure, "failed");
}

}  // namespace
}  // namespace plumbline::fuzz
