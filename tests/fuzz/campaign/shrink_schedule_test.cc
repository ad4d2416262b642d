// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/shrink_schedule.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// One job of a campaign of five minutes that finds something every second, and shrinks for all of the
// time that it is given. Fails if that is above a third, if there is none, or if hunting ends for it.
TEST(ShrinkSchedule, TakesAThird) {
  ShrinkSchedule schedule(300s, 0s, 1, 30s);
  milliseconds now{0}, shrinking{0};
  int findings = 0;
  while (now < 300s) {
    if (const auto time = schedule.Begin(now, 100, true)) {
      EXPECT_LE(*time, 30s);
      schedule.End(*time, *time);
      now += *time, shrinking += *time;
      ++findings;
    } else {
      now += 1s;
    }
  }
  EXPECT_LE(shrinking, 100s);
  EXPECT_GE(shrinking, 60s);
  EXPECT_GE(findings, 4);
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
