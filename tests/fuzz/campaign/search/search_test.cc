// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/search.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;

CaseOptions Options() {
  CaseOptions options;
  options.seed = 3;
  return options;
}

// Returns what a target would show whose tightness depends on the recipe's bits alone.
CaseRecord Show(const Recipe& recipe, size_t target) {
  CaseRecord record;
  record.regime = recipe.regime;
  record.case_class = ClassOf(recipe);
  record.by_output["lse"] = {1, 0, 0, 0};
  const uint64_t bits = Mix(Mix(recipe.seed, target), static_cast<uint64_t>(recipe.v));
  record.tightness["lse"] = static_cast<double>(bits >> 40) * 0x1p-24;
  return record;
}

class SearchTest : public ::testing::Test {
 protected:
  // Draws and takes in the cases of [begin, end), the first half of each generation's in reverse order
  // if shuffled.
  std::vector<std::string> Run(Search* search, int64_t begin, int64_t end, bool shuffled) {
    std::vector<std::string> lines;
    for (int64_t from = begin; from < end; from += kGeneration / 2) {
      std::vector<Recipe> drawn;
      for (int64_t i = 0; i < kGeneration / 2; ++i) {
        EXPECT_TRUE(search->Ready(from + i));
        drawn.push_back(search->Draw(from + i));
        lines.push_back(Format(drawn.back()));
      }
      for (int64_t i = 0; i < kGeneration / 2; ++i) {
        const int64_t j = shuffled ? kGeneration / 2 - 1 - i : i;
        for (size_t target = 0; target < 2; ++target) {
          search->Take(2 * (from + j) + static_cast<int64_t>(target),
                       Show(drawn[static_cast<size_t>(j)], target), 1ms * from);
        }
      }
    }
    return lines;
  }
  const Plan plan_{Options(), {}};
  const std::vector<std::string> regimes_ = RegimesOf(Options());
};

// Fails if records of another order of cases count as blind, for coverage or for the covering design,
// or if they hold the next generations up.
TEST_F(SearchTest, RecordsOfAnotherPlanCountForTheirRegimeAlone) {
  Search search(plan_, regimes_, std::vector<TargetDraws>(1));
  const int64_t end = 4 * kGeneration;
  for (int64_t i = 0; i < end; ++i) search.Take(i, Show(plan_.LevelOne(0), 0), 1ms, /*planned=*/false);
  EXPECT_TRUE(search.Ready(end));
  EXPECT_EQ(search.coverage(0).cells(), 0);
  EXPECT_EQ(search.coverage(0).blind_cases(), 0);
  EXPECT_EQ(search.covered(0).pairs_marked(), 0);
  const auto& yields = search.yields(0);
  EXPECT_EQ(yields.at(plan_.LevelOne(0).regime).cases, end);
}

// Fails if the search depends on which job was faster, or if a resume changes its course.
TEST_F(SearchTest, TheOrderOfAnswersChangesNothing) {
  const std::vector<TargetDraws> draws(2);
  Search one(plan_, regimes_, draws), other(plan_, regimes_, draws), resumed(plan_, regimes_, draws);
  const std::vector<std::string> lines = Run(&one, 0, 6 * kGeneration, false);
  EXPECT_EQ(Run(&other, 0, 6 * kGeneration, true), lines);
  EXPECT_EQ(one.coverage(1).cells(), other.coverage(1).cells());
  EXPECT_EQ(one.coverage(1).newest(), other.coverage(1).newest());
  EXPECT_EQ(one.covered(1).triples_marked(), other.covered(1).triples_marked());
  // This is the journal's order: finished cases first, then the rest.
  for (int64_t i = 0; i < 3 * kGeneration; ++i) {
    for (const size_t target : {1U, 0U}) {
      Recipe recipe;
      std::string error;
      Parse(lines[static_cast<size_t>(i)], &recipe, &error);
      resumed.Take(2 * i + static_cast<int64_t>(target), Show(recipe, target), 0ms);
    }
  }
  const auto half = lines.begin() + 3 * kGeneration;
  EXPECT_EQ(Run(&resumed, 3 * kGeneration, 6 * kGeneration, true),
            std::vector<std::string>(half, lines.end()));
  EXPECT_EQ(one.covered(0).triples_marked(), resumed.covered(0).triples_marked());
}

// Fails if a case is drawn from results that may still change, or if the search waits for more than it
// needs.
TEST_F(SearchTest, AGenerationWaitsForTheLastButOne) {
  Search search(plan_, regimes_, std::vector<TargetDraws>(2));
  EXPECT_TRUE(search.Ready(2 * kGeneration - 1));
  EXPECT_FALSE(search.Ready(2 * kGeneration));
  const int64_t items = 2 * kGeneration;
  for (int64_t item = 1; item < items; ++item) search.Take(item, Show(search.Draw(item / 2), 0), 0ms);
  EXPECT_FALSE(search.Ready(2 * kGeneration));
  EXPECT_EQ(search.coverage(0).cells(), 0);
  search.Take(0, Show(search.Draw(0), 0), 0ms);
  EXPECT_TRUE(search.Ready(3 * kGeneration - 1));
  EXPECT_FALSE(search.Ready(3 * kGeneration));
  EXPECT_GT(search.coverage(0).cells(), 0);
}

// Fails if a slow case holds up all jobs in spite of a lag, or if a generation is drawn from other
// results when it is drawn early.
TEST_F(SearchTest, WithALagAGenerationDoesNotWaitForThoseJustBefore) {
  CaseOptions options = Options();
  options.lag = 32;
  const Plan plan(options, {});
  const std::vector<TargetDraws> draws(2);
  Search prompt(plan, regimes_, draws), late(plan, regimes_, draws);
  // Generation 40 knows the first 31.
  const int64_t known = 31 * kGeneration, drawn = 40 * kGeneration, end = 41 * kGeneration;
  Run(&prompt, 0, known, false);
  EXPECT_FALSE(late.Ready(drawn));
  EXPECT_TRUE(prompt.Ready(end - 1));
  EXPECT_FALSE(prompt.Ready(end));
  std::vector<std::string> early;
  for (int64_t index = drawn; index < end; ++index) early.push_back(Format(prompt.Draw(index)));
  Run(&late, 0, drawn, true);
  EXPECT_EQ(Run(&late, drawn, end, true), early);
}

// Fails if jobs of a campaign without guided cases wait for slow ones, or if one of these lets the
// records of the others fill the memory.
TEST_F(SearchTest, BlindCasesWaitForNoResult) {
  CaseOptions options = Options();
  options.blind = true;
  const Plan plan(options, {});
  Search search(plan, regimes_, std::vector<TargetDraws>(1));
  const int64_t last = (Search::kMostAhead + 1) * kGeneration - 1;
  EXPECT_TRUE(search.Ready(last));
  EXPECT_FALSE(search.Ready(last + 1));
  EXPECT_EQ(Format(search.Draw(last)), Format(plan.Blind(last)));
}

// Fails if a generation knows what the one before it does not know yet, none of what it should, or
// less.
TEST(KnownTo, GrowsAndNeverFalls) {
  EXPECT_EQ(KnownTo(0, 32), 0);
  EXPECT_EQ(KnownTo(1, 32), 0);
  EXPECT_EQ(KnownTo(2, 32), 1);
  EXPECT_EQ(KnownTo(11, 32), 10);
  EXPECT_EQ(KnownTo(12, 32), 10);
  EXPECT_EQ(KnownTo(1000, 32), 969);
  EXPECT_EQ(KnownTo(1000, kLeastLag), 999);
  for (int64_t generation = 1; generation < 1000; ++generation) {
    EXPECT_GE(KnownTo(generation, 32), KnownTo(generation - 1, 32));
    EXPECT_LE(KnownTo(generation, 32), KnownTo(generation - 1, 32) + 1);
  }
}

// Fails if statistics count cases that were not drawn blindly, or leave out the end of a campaign,
// whose last generation is never whole.
TEST_F(SearchTest, CountsBlindCasesAndTheLastGeneration) {
  Search search(plan_, regimes_, std::vector<TargetDraws>(2));
  Run(&search, 0, 4 * kGeneration, false);
  const int64_t level_one = [&] {
    int64_t i = 0;
    while (plan_.At(i).phase == Phase::kLevelOne) ++i;
    return i;
  }();
  EXPECT_EQ(search.coverage(0).cases(), 4 * kGeneration);
  // Every other case after level one is blind.
  EXPECT_EQ(search.coverage(0).blind_cases(), (4 * kGeneration - level_one + 1) / 2);
  EXPECT_GT(search.covered(0).pairs_marked(), 0);
  EXPECT_LT(search.covered(0).pairs_marked(), search.covered(0).pairs());
  Run(&search, 4 * kGeneration, 4 * kGeneration + kGeneration / 2, false);
  EXPECT_EQ(search.coverage(0).cases(), 4 * kGeneration);
  search.Finish();
  EXPECT_EQ(search.coverage(0).cases(), 4 * kGeneration + kGeneration / 2);
  int64_t cases = 0, blind = 0, cells = 0;
  for (const auto& [regime, yield] : search.yields(0)) {
    cases += yield.cases;
    blind += yield.blind;
    cells += yield.new_cells;
  }
  EXPECT_EQ(cases, search.coverage(0).cases());
  EXPECT_EQ(blind, search.coverage(0).blind_cases());
  EXPECT_EQ(cells, search.coverage(0).cells());
}

}  // namespace
}  // namespace plumbline::fuzz
