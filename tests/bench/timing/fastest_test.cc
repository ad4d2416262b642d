// SPDX-License-Identifier: Apache-2.0

#include "bench/timing/fastest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace plumbline::bench {
namespace {

using Order = std::vector<size_t>;

// Candidates of given times, each with those of its rounds in which it ran that are given as well, from
// the one that does not count on. Notes the orders.
struct Script {
  std::vector<double> times;
  std::vector<std::vector<double>> rounds;  // [candidate][round], where there is one
  std::vector<Order> orders = {};

  size_t Choose() {
    return Fastest(times.size(), [this](const Order& order) {
      orders.push_back(order);
      std::vector<double> measured;
      for (const size_t candidate : order) {
        const size_t round = orders.size() - 1;
        const bool given = candidate < rounds.size() && round < rounds[candidate].size();
        measured.push_back(given ? rounds[candidate][round] : times[candidate]);
      }
      return measured;
    });
  }
};

TEST(Fastest, IsTheLeastMedian) {
  Script script{{1.02, 1.00, 1.01}, {}};
  EXPECT_EQ(script.Choose(), 1u);
}

// One quiet moment of a slower candidate, and one bad moment of the faster, decide nothing.
TEST(Fastest, DoesNotHangOnOneMeasurement) {
  Script script{{1.00, 1.05}, {{1, 1, 1.3}, {1.05, 1.05, 1.05, 0.7}}};
  EXPECT_EQ(script.Choose(), 0u);
}

TEST(Fastest, LeavesOutTheFirstRound) {
  Script script{{1.00, 1.01}, {{50}, {0.001}}};
  EXPECT_EQ(script.Choose(), 0u);
  EXPECT_EQ(script.orders.size(), 1u + kRounds);
}

TEST(Fastest, GoesBothWays) {
  Script script{{1.0, 1.0, 1.0}, {}};
  script.Choose();
  EXPECT_EQ(script.orders[1], (Order{2, 1, 0}));
  EXPECT_EQ(script.orders[2], (Order{0, 1, 2}));
  EXPECT_EQ(script.orders[3], (Order{2, 1, 0}));
}

// What is more than 15 % behind costs two rounds and no more.
TEST(Fastest, DropsWhatIsFarBehind) {
  Script script{{1.00, 1.30, 1.14, 2.0}, {}};
  EXPECT_EQ(script.Choose(), 0u);
  ASSERT_EQ(script.orders.size(), 1u + kRounds);
  EXPECT_EQ(script.orders[kRoundsOfAll].size(), 4u);
  EXPECT_THAT(script.orders[kRoundsOfAll + 1], testing::UnorderedElementsAre(0, 2));
  EXPECT_THAT(script.orders.back(), testing::UnorderedElementsAre(0, 2));
}

TEST(Fastest, StopsWhereOneIsLeft) {
  Script script{{1.5, 1.0}, {}};
  EXPECT_EQ(script.Choose(), 1u);
  EXPECT_EQ(script.orders.size(), 1u + kRoundsOfAll);
  Script alone{{1.0}, {}};
  EXPECT_EQ(alone.Choose(), 0u);
}

}  // namespace
}  // namespace plumbline::bench
