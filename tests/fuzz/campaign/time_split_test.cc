// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/time_split.h"

#include <gtest/gtest.h>

namespace plumbline::fuzz {
namespace {

// Fails if the wall clock is taken for the time of all jobs, or if another part is counted as the
// harness's.
TEST(TimeSplitTest, TheHarnessHasWhatNobodyElseTook) {
  const TimeSplit time{.jobs = 2,
                       .wall = 20,
                       .target = 12,
                       .oracle = 18,
                       .arbiter = 2,
                       .shrinking = 4,
                       .expansion = 2,
                       .waiting = 1};
  EXPECT_EQ(time.Total(), 40);
  EXPECT_EQ(time.Harness(), 4);
  EXPECT_EQ(
      Describe(time),
      "2 jobs for 20.0 s: running the target 30 %, computing what is right 45 %, confirming it at "
      "1280 bits 5 %, shrinking 10 %, making inputs 5 %, waiting for other jobs 2 %, processes 2 %");
}

// Fails if a part is missing or stands under another key.
TEST(TimeSplitTest, JsonHasEveryPart) {
  const Json json = ToJson(TimeSplit{.jobs = 3,
                                     .wall = 1.5,
                                     .target = 0.25,
                                     .oracle = 2,
                                     .arbiter = 0.5,
                                     .shrinking = 4,
                                     .expansion = 8,
                                     .waiting = 16});
  EXPECT_EQ(*json.Find("jobs")->as_int(), 3);
  EXPECT_EQ(json.Find("wall")->as_number(), 1.5);
  EXPECT_EQ(json.Find("target")->as_number(), 0.25);
  EXPECT_EQ(json.Find("oracle")->as_number(), 2);
  EXPECT_EQ(json.Find("arbiter")->as_number(), 0.5);
  EXPECT_EQ(json.Find("shrinking")->as_number(), 4);
  EXPECT_EQ(json.Find("expansion")->as_number(), 8);
  EXPECT_EQ(json.Find("waiting")->as_number(), 16);
}

}  // namespace
}  // namespace plumbline::fuzz
