// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/selftest/kill_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Kill KillOf(const std::string& target, int64_t cases, const std::string& bucket, int64_t values = 4) {
  Kill kill;
  kill.target = target;
  kill.seed = 7;
  kill.cases = cases;
  kill.sighting.signature = "bound:logprob";
  kill.sighting.regime = "edges";
  kill.sighting.kept.emplace();
  kill.sighting.kept->values_after = values;
  kill.sighting.kept->seconds = 0.5;
  kill.bucket = {"key of " + bucket, bucket};
  return kill;
}

Kill Alive(const std::string& target, int64_t cases) {
  Kill kill;
  kill.target = target;
  kill.cases = cases;
  kill.trouble = "not found (clean)";
  return kill;
}

// Fails if a mutant that the contract allows counts as one that lives, or as killed.
TEST(KillStatistics, WhatIsAllowedIsLeftOut) {
  Kill allowed = Alive("a", 100);
  allowed.trouble.clear();
  allowed.allowed = "a convention";
  EXPECT_FALSE(allowed.killed());
  const KillStatistics statistics = Summarise({allowed, KillOf("b", 2, "x")});
  ASSERT_EQ(statistics.mutants.size(), 1U);
  EXPECT_EQ(statistics.mutants[0].target, "b");
}

// Fails if a percentile is off by one place. It is the smallest value that so many do not exceed.
TEST(KillStatistics, PercentilesByNearestRank) {
  std::vector<double> ten = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(Percentile(ten, 50), 5);
  EXPECT_EQ(Percentile(ten, 90), 9);
  EXPECT_EQ(Percentile(ten, 91), 10);
  EXPECT_EQ(Percentile(ten, 100), 10);
  EXPECT_EQ(Percentile({3}, 50), 3);
  EXPECT_EQ(Percentile({1, 2, 3}, 50), 2);
}

// Fails if a mutant that survives is left out of its statistics, which would make the slow ones look
// fast, or counts as its budget alone, which may be less than another took.
TEST(KillStatistics, OneThatLivesIsTheSlowest) {
  const KillStatistics statistics =
      Summarise({KillOf("a", 2, "x"), Alive("a", 100), KillOf("b", 300, "y")});
  ASSERT_EQ(statistics.mutants.size(), 2u);
  EXPECT_EQ(statistics.mutants[0].hunts, 2);
  EXPECT_EQ(statistics.mutants[0].killed, 1);
  EXPECT_EQ(Percentile(statistics.mutants[0].samples.cases, 50), 2);
  EXPECT_EQ(Percentile(statistics.mutants[0].samples.cases, 90), 300);
  EXPECT_EQ(Percentile(statistics.samples.cases, 50), 300);
  // Sizes are known only of stored cases.
  EXPECT_EQ(Percentile(statistics.mutants[0].samples.values, 50), 4);
}

// Fails if two findings of one mutant make a bucket impure, if two mutants do not, or if a bucket
// counts as often as it has findings.
TEST(KillStatistics, PurityIsByBucketAndByMutant) {
  const KillStatistics statistics =
      Summarise({KillOf("a", 1, "x"), KillOf("a", 1, "x"), KillOf("b", 1, "y"), KillOf("a", 1, "y"),
                 KillOf("a", 1, "z"), KillOf("b", 1, "w"), Alive("c", 9)});
  EXPECT_EQ(statistics.buckets, 4);
  EXPECT_EQ(statistics.Purity(), 0.75);
  ASSERT_EQ(statistics.shared.size(), 1u);
  EXPECT_EQ(statistics.shared[0].key, "key of y");
  EXPECT_EQ(statistics.shared[0].targets.at("a"), 1);
  EXPECT_EQ(statistics.mutants[0].buckets.size(), 3u);
  const std::string text = StatisticsText(statistics);
  EXPECT_THAT(text, HasSubstr("buckets: 4, of which 75.0 % hold one cause"));
  EXPECT_THAT(text, HasSubstr("shared: a (1) b (1): key of y"));
  EXPECT_THAT(text, HasSubstr("6 of 7 hunts for 3 mutants ended with a kill"));
}

// Fails if the table is printed although there is one hunt a mutant, or is missing if there are
// several.
TEST(KillStatistics, ATableWhereThereAreSeveralHunts) {
  EXPECT_THAT(StatisticsText(Summarise({KillOf("a", 1, "x"), KillOf("b", 3, "y")})),
              Not(HasSubstr("90 %")));
  const std::string text = StatisticsText(Summarise({KillOf("a", 1, "x"), KillOf("a", 3, "x")}));
  EXPECT_THAT(text, HasSubstr("90 %"));
  EXPECT_THAT(text, HasSubstr("2/2"));
}

// Fails if a number of the text is not in the JSON, or if an empty set divides by zero.
TEST(KillStatistics, JsonHoldsIt) {
  const Json json = ToJson(Summarise({KillOf("a", 1, "x"), KillOf("b", 5, "x", 64)}));
  EXPECT_EQ(json.Find("purity")->as_number(), 0.0);
  EXPECT_EQ(*json.Find("buckets")->as_int(), 1);
  EXPECT_EQ(json.Find("cases_median")->as_number(), 1.0);
  EXPECT_EQ(json.Find("mutants")->as_array()->at(1).Find("values_median")->as_number(), 64.0);
  EXPECT_EQ(*json.Find("shared_buckets")->as_array()->at(0).Find("targets")->Find("b")->as_int(), 1);
  EXPECT_EQ(ToJson(Summarise({})).Find("purity")->as_number(), 1.0);
}

}  // namespace
}  // namespace plumbline::fuzz
