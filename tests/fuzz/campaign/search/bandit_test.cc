// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/bandit.h"

#include <gtest/gtest.h>

#include <map>

namespace plumbline::fuzz {
namespace {

// Fails if an arm gets nothing, if shares do not sum to 1, or if a reward is not divided by its cost.
TEST(BanditTest, SharesFollowYieldAboveAFloor) {
  Bandit bandit({"a", "b", "c", "d"});
  EXPECT_EQ(bandit.Share("a"), 0.25);
  bandit.Add("a", 3, 80'000);   // plus the 20 000 of any case: 3e-5 a multiply-add
  bandit.Add("b", 1, 80'000);   // 1e-5
  bandit.Add("c", 0, 980'000);  // 0
  bandit.Add("e", 100, 0);
  EXPECT_DOUBLE_EQ(bandit.Share("a"), 0.125 + 0.5 * 0.75);
  EXPECT_DOUBLE_EQ(bandit.Share("b"), 0.125 + 0.5 * 0.25);
  EXPECT_DOUBLE_EQ(bandit.Share("c"), 0.125);
  EXPECT_DOUBLE_EQ(bandit.Share("d"), 0.125);
  bandit.Add("b", 2, 0);  // 3 for 120 000 of cost
  EXPECT_DOUBLE_EQ(bandit.Share("b"), 0.125 + 0.5 * 2.5 / 5.5);
}

// Old rewards count less: the same reward now outweighs them. Fails if an old reward counts as much as
// a new one.
TEST(BanditTest, AgesWhatItKnows) {
  Bandit bandit({"a", "b"});
  bandit.Add("a", 1, 100'000);
  for (int i = 0; i < 10; ++i) {
    bandit.Age();
    bandit.Add("a", 0, 100'000);
    bandit.Add("b", 1, 100'000);
  }
  EXPECT_LT(bandit.Share("a"), 0.3);
}

// Fails if choices do not follow the shares, or if the end of the range has no arm.
TEST(BanditTest, ChoosesByShare) {
  Bandit bandit({"a", "b"});
  bandit.Add("a", 3, 0);
  bandit.Add("b", 1, 0);
  std::map<std::string, int> chosen;
  for (uint64_t i = 0; i < 1000; ++i) ++chosen[bandit.Choose(static_cast<uint32_t>(i * 4'294'967))];
  EXPECT_NEAR(chosen["a"], 625, 2);
  EXPECT_EQ(bandit.Choose(0), "a");
  EXPECT_EQ(bandit.Choose(0xFFFF'FFFF), "b");
}

}  // namespace
}  // namespace plumbline::fuzz
