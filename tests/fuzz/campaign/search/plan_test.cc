// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "fuzz/campaign/search/covering.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

std::vector<std::filesystem::path> Files(int count) {
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) files.push_back("case" + std::to_string(i));
  return files;
}

CaseOptions Seeded(uint64_t seed) {
  CaseOptions options;
  options.seed = seed;
  return options;
}

// Returns the recipes of level one as lines.
std::vector<std::string> LevelOne(const Plan& plan) {
  std::vector<std::string> lines;
  for (int64_t i = 0; plan.At(i).phase == Phase::kLevelOne; ++i) {
    lines.push_back(Format(plan.LevelOne(plan.At(i).number)));
  }
  return lines;
}

// Fails if a phase is skipped or comes twice, if a guided case comes before anything is known, if blind
// cases are fewer than half, or if one of the kinds leaves a number out.
TEST(PlanTest, StoredCasesThenLevelOneThenTheSearch) {
  const Plan plan(Seeded(1), Files(3));
  const auto first = static_cast<int64_t>(LevelOne(Plan(Seeded(1), {})).size());
  EXPECT_GE(first, static_cast<int64_t>(Regimes().size()));
  int64_t blind = 0, guided = 0, covering = 0;
  for (int64_t i = 0; i < 6 * kGeneration; ++i) {
    const Plan::Place place = plan.At(i);
    if (i < 3) {
      EXPECT_EQ(place.phase, Phase::kCorpus);
      EXPECT_EQ(plan.CorpusFile(place.number), "case" + std::to_string(i));
    } else if (i < 3 + first) {
      EXPECT_EQ(place.phase, Phase::kLevelOne);
      EXPECT_EQ(place.number, i - 3);
    } else {
      ASSERT_EQ(place.phase, Phase::kSearch);
      EXPECT_EQ(place.number, place.guided ? guided++ : place.covering ? covering++ : blind++);
      EXPECT_EQ(place.Blind(), !place.guided && !place.covering);
      EXPECT_FALSE(place.guided && i < 2 * kGeneration);
      EXPECT_GE(blind, guided + covering);
    }
  }
  EXPECT_EQ(guided, kGeneration);
  EXPECT_GE(covering, kGeneration);
}

// Fails if rows of the covering design are left out, come twice among shards, or never end, or if half
// of the cases after them are not guided.
TEST(PlanTest, TheDesignsRowsComeOnceAndThenGuidedCases) {
  constexpr int64_t kEnd = 60'000;
  for (const int64_t of : {1, 3}) {
    std::set<int64_t> rows;
    int64_t all = 0;
    for (int64_t shard = 0; shard < of; ++shard) {
      CaseOptions options = Seeded(1);
      options.shard = {.number = shard, .of = of};
      const Plan plan(options, {});
      ASSERT_TRUE(plan.HasCovering());
      int64_t guided = 0, blind = 0;
      for (int64_t i = 0; i < kEnd; ++i) {
        const Plan::Place place = plan.At(i);
        if (place.phase != Phase::kSearch) continue;
        if (!place.covering) {
          EXPECT_EQ(place.number, place.guided ? guided++ : blind++);
        }
        if (!place.covering) continue;
        EXPECT_TRUE(rows.insert(plan.CoveringRow(place.number)).second);
        ++all;
      }
      EXPECT_TRUE(plan.At(kEnd).guided || plan.At(kEnd + 1).guided);
    }
    EXPECT_EQ(all, CoveringDesign::kTripleRows);
    EXPECT_EQ(*rows.rbegin(), CoveringDesign::kTripleRows - 1);
  }
  CaseOptions options = Seeded(1);
  options.regime = "edges";
  EXPECT_FALSE(Plan(options, {}).HasCovering());
}

// Fails if level one leaves a regime out, or has the same order for every seed: the last regime's
// defects would always be found last.
TEST(PlanTest, LevelOneHasEveryRegimeInEachSeedsOwnOrder) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Plan plan(Seeded(seed), {});
    std::set<std::string> regimes;
    std::string order;
    for (size_t i = 0; i < Regimes().size(); ++i) {
      regimes.insert(plan.LevelOne(static_cast<int64_t>(i)).regime);
      order += plan.LevelOne(static_cast<int64_t>(i)).regime + " ";
    }
    EXPECT_EQ(regimes.size(), Regimes().size());
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4U);
}

// Fails if another regime is drawn than the one asked for, if `--blind` has level one or guided cases
// or waits for results, or if `--recipe` is not that case.
TEST(PlanTest, ARegimeARecipeAndABlindCampaign) {
  CaseOptions options = Seeded(1);
  options.regime = "edges";
  const Plan one(options, {});
  for (const std::string& line : LevelOne(one)) EXPECT_NE(line.find("regime=edges"), std::string::npos);
  EXPECT_EQ(Format(one.Blind(5)), Format(DrawRecipe(1, 5, "edges")));
  options = Seeded(1);
  options.blind = true;
  const Plan blind(options, {});
  for (int64_t i = 0; i < 4 * kGeneration; ++i) {
    EXPECT_EQ(blind.At(i).number, i);
    EXPECT_FALSE(blind.At(i).guided);
  }
  EXPECT_FALSE(blind.HasGuided());  // jobs would wait for nothing
  EXPECT_EQ(Format(blind.Blind(77)), Format(DrawRecipe(1, 77)));
  options.recipe = "v1 n=3";
  EXPECT_EQ(Plan(options, {}).At(0).phase, Phase::kRecipe);
  EXPECT_EQ(Plan(options, {}).Blind(0).n, 3);
}

// Fails if shards run a case twice, leave one out, or see only some of the regimes.
TEST(PlanTest, ShardsShareNothingAndTogetherAreWhole) {
  const auto walk = static_cast<int64_t>(Regimes().size());
  CaseOptions options = Seeded(9);
  std::set<std::string> files, level_one, draws;
  std::set<uint64_t> seeds;
  for (int64_t shard = 0; shard < 3; ++shard) {
    options.shard = {.number = shard, .of = 3};
    const Plan plan(options, Files(8));
    int64_t stored = 0;
    for (; plan.At(stored).phase == Phase::kCorpus; ++stored) {
      EXPECT_TRUE(files.insert(plan.CorpusFile(stored)).second);
    }
    for (int64_t i = stored; plan.At(i).phase == Phase::kLevelOne; ++i) {
      EXPECT_TRUE(level_one.insert(Format(plan.LevelOne(plan.At(i).number))).second);
    }
    std::set<std::string> regimes;
    for (int64_t i = 0; i < 2 * walk; ++i) {
      EXPECT_TRUE(draws.insert(Format(plan.Blind(i))).second);
      regimes.insert(plan.Blind(i).regime);
      EXPECT_TRUE(seeds.insert(plan.GuidedSeed(i)).second);
    }
    EXPECT_EQ(regimes.size(), Regimes().size());
  }
  EXPECT_EQ(files.size(), 8U);
  EXPECT_EQ(level_one.size(), LevelOne(Plan(Seeded(9), {})).size());
  for (int64_t i = 0; i < 6 * walk; ++i) {
    EXPECT_TRUE(draws.contains(Format(DrawRecipe(9, static_cast<uint64_t>(i)))));
  }
}

}  // namespace
}  // namespace plumbline::fuzz
