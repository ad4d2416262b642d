// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/assurance.h"

#include <gtest/gtest.h>

namespace plumbline::fuzz {
namespace {

// Computed by hand: of 100 cases 10 are the only ones with a cell, and 6 share theirs with one other,
// so the estimate is 0.1. The standard error is sqrt(10 * 0.9 + 6) / 100 = sqrt(15) / 100 = 0.0387298,
// times 1.645 is 0.0637106. Fails if the estimate or its limit differs from these numbers.
TEST(Assurance, GoodTuringIsAsByHand) {
  const NewCellChance chance = GoodTuring(100, 10, 6);
  EXPECT_EQ(chance.estimate, 0.1);
  EXPECT_NEAR(chance.at_most, 0.1637106, 1e-6);
}

// Fails if certainty is claimed where nothing was rare, or nothing was seen.
TEST(Assurance, NothingRareIsNotCertainty) {
  EXPECT_EQ(GoodTuring(1000, 0, 0).estimate, 0);
  EXPECT_EQ(GoodTuring(1000, 0, 0).at_most, 0.003);
  EXPECT_EQ(GoodTuring(0, 0, 0).estimate, 1);
  EXPECT_EQ(GoodTuring(0, 0, 0).at_most, 1);
  EXPECT_EQ(GoodTuring(4, 4, 0).at_most, 1);
}

// (1 - 3 / 300)^300 = 0.0490 is just below 5 %. Fails if the limit is another one, or is above 1 for
// few cases or none.
TEST(Assurance, TheRuleOfThree) {
  EXPECT_EQ(RuleOfThree(300), 0.01);
  EXPECT_EQ(RuleOfThree(2), 1);
  EXPECT_EQ(RuleOfThree(0), 1);
}

}  // namespace
}  // namespace plumbline::fuzz
