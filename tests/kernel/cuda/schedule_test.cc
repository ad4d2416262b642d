// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/product/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace plumbline::kernel::cuda::hopper {
namespace {

constexpr int kClusters = 66;

std::vector<int> TilesOf(const Deal& deal, int cluster, int tiles) {
  std::vector<int> taken;
  for (int tile = deal.First(cluster); tile < tiles; tile = deal.After(tile)) taken.push_back(tile);
  return taken;
}

// Fails if a tile of a head is dealt again after it, or if a tile after the head is never dealt.
TEST(HopperSchedule, EachTileIsDealtOnceAndInOrder) {
  for (const int tiles : {0, 1, 65, 66, 67, 500, 1311}) {
    for (const int clusters : {0, 1, 16, 65, 66}) {
      for (const int rounds : {0, 1, 2, 7, 30}) {
        SCOPED_TRACE(std::to_string(tiles) + " tiles, a head of " + std::to_string(clusters) + " x " +
                     std::to_string(rounds));
        const Deal deal = {kClusters, {clusters, rounds}};
        std::vector<int> dealt(static_cast<size_t>(tiles));
        for (int cluster = 0; cluster < kClusters; ++cluster) {
          const std::vector<int> taken = TilesOf(deal, cluster, tiles);
          EXPECT_TRUE(std::ranges::is_sorted(taken));
          for (const int tile : taken) ++dealt[static_cast<size_t>(tile)];
        }
        EXPECT_TRUE(std::ranges::all_of(dealt, [](int times) { return times == 1; }));
      }
    }
  }
}

// Returns whether every cluster begins all of its tiles, if it begins none before all tiles of the
// round of the one before have begun, as with a slack of 0 (hopper/pace.cuh).
bool AllBegin(const Deal& deal, int tiles) {
  std::vector<int> next, enough(kClusters);
  for (int cluster = 0; cluster < kClusters; ++cluster) next.push_back(deal.First(cluster));
  int begun = 0;
  for (bool went_on = true; went_on;) {
    went_on = false;
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i] >= tiles || begun < enough[i]) continue;
      ++begun;
      enough[i] = deal.EndOfRound(static_cast<int>(i), next[i]);
      next[i] = deal.After(next[i]);
      went_on = true;
    }
  }
  return begun == tiles;
}

// Fails if a cluster waits for a tile that is dealt to nobody in that round, and so until it has polled
// as often as it may.
TEST(HopperSchedule, ARoundEndsWithATileThatBegins) {
  for (const int tiles : {0, 1, 65, 66, 67, 500, 1311}) {
    for (const int clusters : {0, 1, 16, 65, 66}) {
      for (const int rounds : {0, 1, 2, 7, 30}) {
        EXPECT_TRUE(AllBegin({kClusters, {clusters, rounds}}, tiles))
            << tiles << " tiles, a head of " << clusters << " x " << rounds;
      }
    }
  }
  const Deal deal = {kClusters, {16, 2}};
  EXPECT_EQ(deal.EndOfRound(0, 0), 16);
  EXPECT_EQ(deal.EndOfRound(15, 31), 32);
  EXPECT_EQ(deal.EndOfRound(0, 32), 98);
  EXPECT_EQ(deal.EndOfRound(65, 97), 98);
  EXPECT_EQ(deal.EndOfRound(65, 163), 164);
}

// 8192 x 4096 x 151936: grad_hidden has 512 tiles, 50 of them in its last round, and each takes as long
// as 2.2 of grad_weight's. Fails if the head does not go to the 16 clusters that are free in that
// round, or if all clusters get as much.
TEST(HopperSchedule, AHeadGoesToThoseThatAreFree) {
  const Head head = HeadBeside(kClusters, {512, 221184}, {1152, 98304});
  EXPECT_EQ(head.clusters, 16);
  EXPECT_EQ(head.rounds, 2);
  const Deal deal = {kClusters, head};
  for (int cluster = 0; cluster < kClusters; ++cluster) {
    const size_t most = cluster < 16 ? 19 : 17;
    const size_t taken = TilesOf(deal, cluster, 1152).size();
    EXPECT_TRUE(taken == most || taken == most - 1) << cluster << ": " << taken;
  }
}

// Fails if there is a head although no cluster is free before the others, or if a head has more than
// all tiles.
TEST(HopperSchedule, NobodyIsFreeFirst) {
  const auto rounds = [](Load before, Load own) { return HeadBeside(kClusters, before, own).rounds; };
  EXPECT_EQ(rounds({0, 1}, {500, 1}), 0);
  EXPECT_EQ(rounds({132, 1}, {500, 1}), 0);
  EXPECT_EQ(rounds({100, 1}, {65, 1}), 0);  // fewer than one tile for each
  EXPECT_EQ(rounds({100, 1}, {500, 0}), 0);
  EXPECT_EQ(rounds({100, 1}, {500, 3}), 0);
  EXPECT_EQ(rounds({100, 1e30f}, {500, 1}), 500 / 32 + 1);  // all tiles
}

// Fails if the last group, which is not full, is cut like the others, or if tiles run along columns.
TEST(HopperSchedule, TilesOfAGroupLieBelowEachOther) {
  for (const int rows : {1, 7, 8, 9, 20}) {
    for (const int columns : {1, 3, 33}) {
      const Schedule schedule = {rows, columns};
      ASSERT_EQ(schedule.tiles(), rows * columns);
      int tile = 0;
      for (int group = 0; group < rows; group += Schedule::kGroup) {
        for (int column = 0; column < columns; ++column) {
          for (int row = group; row < std::min(group + Schedule::kGroup, rows); ++row) {
            int at_row = -1, at_column = -1;
            schedule.At(tile++, &at_row, &at_column);
            ASSERT_EQ(at_row, row);
            ASSERT_EQ(at_column, column);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda::hopper
