// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/shrink_schedule.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct Shrunk {
  milliseconds time{0};
  int findings = 0;
};

// One job of a campaign of five minutes that finds something every second, and shrinks for all of the
// time that it is given: at most `most` for one finding.
Shrunk AllShrinking(ShrinkSchedule schedule, milliseconds most) {
  milliseconds now{0};
  Shrunk all;
  while (now < 300s) {
    if (const auto time = schedule.Begin(now, 100, true)) {
      EXPECT_LE(*time, most);
      schedule.End(*time, *time);
      now += *time, all.time += *time;
      ++all.findings;
    } else {
      now += 1s;
    }
  }
  return all;
}

// Fails if that is above a third, or above a sixth of a target that compiles, if there is none, if
// hunting ends for it, or if one finding has more than it may.
TEST(ShrinkSchedule, TakesItsShare) {
  const Shrunk third = AllShrinking({300s, 0s, 1, 30s}, 30s);
  EXPECT_LE(third.time, 100s);
  EXPECT_GE(third.time, 60s);
  EXPECT_GE(third.findings, 4);
  const Shrunk sixth = AllShrinking({300s, 0s, 1, 120s, true}, 120s);
  EXPECT_LE(sixth.time, 50s);
  EXPECT_GE(sixth.time, 25s);
  AllShrinking({300s, 0s, 8, 30s}, 30s);  // half of the third of eight jobs is 400 s
}

// Fails if the first finding of a target that compiles has half of a third, or if the next one begins
// once more than a sixth of the time until now is spent.
TEST(ShrinkSchedule, ATargetThatCompilesHasASixth) {
  for (const bool compiles : {false, true}) {
    ShrinkSchedule schedule(300s, 0s, 1, 120s, compiles);
    const auto time = schedule.Begin(1s, 100, true);
    ASSERT_TRUE(time);
    EXPECT_EQ(*time, compiles ? 25s : 50s);
    schedule.End(*time, 15s);
    EXPECT_EQ(schedule.Begin(60s, 100, true).has_value(), !compiles);
  }
}

// Fails if those that are left when the hunt ends are dropped, get less than a few seconds, or all of
// them more than what is left of the third where that suffices.
TEST(ShrinkSchedule, WhatIsLeftIsSharedAtTheEnd) {
  for (const int64_t left : {2, 5, 50}) {
    ShrinkSchedule schedule(60s, 0s, 1, 30s);
    milliseconds all{0};
    for (int64_t waiting = left; waiting > 0; --waiting) {
      const auto time = schedule.Begin(61s, waiting, false);
      ASSERT_TRUE(time);
      EXPECT_GE(*time, 3s);
      schedule.End(*time, *time);
      all += *time;
    }
    EXPECT_LE(all, std::max<milliseconds>(20s, left * 3s + 1s));
    EXPECT_GE(all, 20s - 1s);
  }
}

// Fails if every job of a campaign shrinks while there are cases to be drawn, or if none may.
TEST(ShrinkSchedule, HuntingGoesOn) {
  for (const int jobs : {1, 2, 8}) {
    ShrinkSchedule schedule(std::nullopt, 0s, jobs, 30s);
    int shrinking = 0;
    while (shrinking < jobs && schedule.Begin(1s, 100, true)) ++shrinking;
    EXPECT_EQ(shrinking, std::max(1, jobs / 3));
    EXPECT_EQ(schedule.Begin(1s, 100, false), 30s);
  }
}

// Fails if a resumed campaign has the time of the runs before for shrinking.
TEST(ShrinkSchedule, AResumedCampaignHasTheRestOfItsTime) {
  ShrinkSchedule schedule(60s, 57s, 2, 30s);
  EXPECT_FALSE(schedule.Begin(58s, 1, true));
  EXPECT_EQ(schedule.Begin(61s, 1, false), 3s);
}

}  // namespace
}  // namespace plumbline::fuzz
