// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/selftest/hunt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "fuzz/cases/file.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

const std::atomic<bool> kNoInterrupt{false};

Kill HuntFor(const std::string& target, int64_t cases, const std::filesystem::path& out) {
  CampaignOptions options;
  options.targets = {target};
  options.seed = 1;
  options.budget = {.time = {}, .cases = cases};
  options.out = out;
  options.program = PLUMB_PROGRAM;
  return Hunt(std::move(options), false, kNoInterrupt);
}

// Fails if a defect without effect counts as killed: host is a mutant without a defect.
TEST(Hunt, NothingIsFoundWhereThereIsNothing) {
  testing::Workplace work;
  const Kill kill = HuntFor("host", 5, work / "h");
  EXPECT_FALSE(kill.killed());
  EXPECT_FALSE(kill.found());
  EXPECT_EQ(kill.trouble, "not found (clean)");
  EXPECT_EQ(kill.cases, 5);
  EXPECT_EQ(kill.bucket.id, "");
  EXPECT_FALSE(*ToJson(kill).Find("killed")->as_bool());
}

// Fails if the kill is not what the campaign stored, or its bucket not that of the stored case.
TEST(Hunt, AKillIsStoredReplayedAndBucketed) {
  testing::Workplace work;
  const Kill kill = HuntFor("mutant:logprob-rounded", 50, work / "m");
  ASSERT_TRUE(kill.killed()) << kill.trouble;
  EXPECT_EQ(kill.cases, kill.sighting.item + 1);
  std::string error;
  const auto c = ReadCase(work / "m" / kill.sighting.kept->file, &error);
  ASSERT_TRUE(c) << error;
  EXPECT_EQ(kill.bucket, c->bucket);
  EXPECT_EQ(kill.bucket.id.size(), 8u);
  EXPECT_EQ(*ToJson(kill).Find("bucket")->Find("id")->as_string(), kill.bucket.id);

  // The same hunt kills by the same case: it depends on seed and target alone.
  const Kill again = HuntFor("mutant:logprob-rounded", 50, work / "n");
  EXPECT_EQ(again.cases, kill.cases);
  EXPECT_EQ(again.sighting.recipe, kill.sighting.recipe);
}

// Fails if a target that does not exist looks like a mutant that survives for lack of cases.
TEST(Hunt, WhatDoesNotLoadSaysSo) {
  testing::Workplace work;
  const Kill kill = HuntFor("mutant:nope", 5, work / "m");
  EXPECT_FALSE(kill.killed());
  EXPECT_THAT(kill.trouble, ::testing::HasSubstr("nope"));
}

}  // namespace
}  // namespace plumbline::fuzz
