// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/time_split.h"

#include <gtest/gtest.h>

namespace plumbline::fuzz {
namespace {

// Fails if the wall clock is taken for the time of all jobs, or if another part is counted as the
// harness's.
TEST(TimeSplitTest, TheHarnessHasWhatNobodyElseTook) {
  const TimeSplit time{
      .jobs = 2, .wall = 10, .target = 6, .oracle = 9, .arbiter = 1, .shrinking = 2, .expansion = 1};
  EXPECT_EQ(time.Total(), 20);
  EXPECT_EQ(time.Harness(), 2);
  EXPECT_EQ(
      Describe(time),
      "2 jobs for 10.0 s: running the target 30 %, computing what is right 45 %, confirming it at "
      "1280 bits 5 %, shrinking 10 %, making inputs 5 %, processes and waiting 5 %");
}

// Fails if a part is missing or stands under another key.
TEST(TimeSplitTest, JsonHasEveryPart) {
  const Json json = ToJson(TimeSplit{.jobs = 3,
                                     .wall = 1.5,
                                     .target = 0.25,
                                     .oracle = 2,
                                     .arbiter = 0.5,
                                     .shrinking = 4,
                                     .expansion = 8});
  EXPECT_EQ(*json.Find("jobs")->as_int(), 3);
  EXPECT_EQ(json.Find("wall")->as_number(), 1.5);
  EXPECT_EQ(json.Find("target")->as_number(), 0.25);
  EXPECT_EQ(json.Find("oracle")->as_number(), 2);
  EXPECT_EQ(json.Find("arbiter")->as_number(), 0.5);
  EXPECT_EQ(json.Find("shrinking")->as_number(), 4);
  EXPECT_EQ(json.Find("expansion")->as_number(), 8);
}

}  // namespace
}  // namespace plumbline::fuzz
