// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/hopper/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace plumbline::kernel::cuda::hopper {
namespace {

// How often each tile is computed, as the three parts of a block count: the issuing thread and both
// warpgroups that take turns. Fails if a head's tile is dealt again after it, or one after it never is.
TEST(HopperSchedule, EachTileIsDealtOnceAndInOrder) {
  for (const int tiles : {0, 1, 65, 66, 67, 500, 1311}) {
    for (const int head_clusters : {0, 1, 16, 65}) {
      for (const int head_rounds : {0, 1, 2, 7}) {
        SCOPED_TRACE(std::to_string(tiles) + " tiles, a head of " + std::to_string(head_clusters) +
                     " x " + std::to_string(head_rounds));
        constexpr int kClusters = 66;
        std::vector<int> dealt(static_cast<size_t>(tiles));
        for (int cluster = 0; cluster < kClusters; ++cluster) {
          const Deal deal = {cluster, kClusters, head_clusters, head_rounds};
          int before = -1;
          for (int round = deal.first_round(); deal.Tile(round) < tiles; ++round) {
            ASSERT_GT(deal.Tile(round), before);
            before = deal.Tile(round);
            ++dealt[static_cast<size_t>(before)];
          }
        }
        EXPECT_TRUE(std::ranges::all_of(dealt, [](int times) { return times == 1; }));
      }
    }
  }
}

// The head is for those that are free first: of 66, with 16 late ones, 50 take two tiles more.
TEST(HopperSchedule, AHeadGoesToTheFirst) {
  const auto taken = [](int cluster) {
    const Deal deal = {cluster, 66, 50, 2};
    int count = 0;
    for (int round = deal.first_round(); deal.Tile(round) < 100 + 5 * 66; ++round) ++count;
    return count;
  };
  EXPECT_EQ(taken(0), 7);
  EXPECT_EQ(taken(49), 7);
  EXPECT_EQ(taken(50), 5);
  EXPECT_EQ(taken(65), 5);
}

// Fails if the last group, which is not full, is cut like the others.
TEST(HopperSchedule, TilesOfAGroupLieBelowEachOther) {
  for (const int rows : {1, 7, 8, 9, 20}) {
    for (const int columns : {1, 3, 33}) {
      const Schedule schedule = {rows, columns};
      ASSERT_EQ(schedule.tiles(), rows * columns);
      std::vector<int> found(static_cast<size_t>(rows * columns));
      int last_group = 0;
      for (int tile = 0; tile < schedule.tiles(); ++tile) {
        int row = -1, column = -1;
        schedule.At(tile, &row, &column);
        ASSERT_TRUE(row >= 0 && row < rows && column >= 0 && column < columns) << row << " " << column;
        ++found[static_cast<size_t>(row * columns + column)];
        ASSERT_GE(row / Schedule::kGroup, last_group);
        last_group = row / Schedule::kGroup;
      }
      EXPECT_TRUE(std::ranges::all_of(found, [](int times) { return times == 1; }));
    }
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda::hopper
