// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/arbiter_schedule.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace plumbline::fuzz {
namespace {

constexpr double kCheap = 5e3, kMiddling = 2e5, kDear = 2.5e7;  // 1 ms, 40 ms and 5 s of the arbiter

// Runs `cases` passing cases of one kind, 1 ms each, with an arbiter that takes the time expected of
// it. Returns the number of cases that it was asked about.
int64_t Asked(ArbiterSchedule* schedule, const char* regime, double cost, int64_t cases, double* clock,
              int64_t elements = 5) {
  int64_t asked = 0;
  for (int64_t i = 0; i < cases; ++i) {
    *clock += 0.001;
    if (!schedule->Due(regime, cost, 0.001, *clock)) continue;
    ++asked;
    *clock += cost / 5e6;
    schedule->Paid(regime, cost, cost / 5e6, elements);
  }
  return asked;
}

// A minute of cheap cases reaches the rate, and stops near it: 3 % of a minute are 1 800 ms, less than
// the 2 000 ms that 10 000 elements here would take. Fails if the rate is not reached, or is exceeded
// without limit.
TEST(ArbiterSchedule, CheapCasesKeepTheLeastRate) {
  ArbiterSchedule schedule(kArbitratedPerMinute);
  double clock = 0;
  int64_t asked = 0;
  while (clock < 60) asked += Asked(&schedule, "a", kCheap, 1, &clock, /*elements=*/1);
  EXPECT_GE(asked, 990);
  EXPECT_LE(asked, 1900);
}

// Fails if the share has the wrong size, if an account forgets what it paid, or if cases of 40 ms are
// asked about only to reach the rate.
TEST(ArbiterSchedule, OthersAreAskedForThreePerCentOfTheirTime) {
  ArbiterSchedule schedule(kArbitratedPerMinute);
  double clock = 0;
  // 100 000 cases of 1 ms give the arbiter 3 s, 75 times 40 ms. The last may be half saved.
  EXPECT_NEAR(static_cast<double>(Asked(&schedule, "a", kMiddling, 100'000, &clock)), 75, 1);
}

// Fails if all cases share one account, from which the cheap ones take everything before an expensive
// one is paid for.
TEST(ArbiterSchedule, DearCasesHaveTheirTurn) {
  ArbiterSchedule schedule(kArbitratedPerMinute);
  double clock = 0;
  int64_t dear = 0, middling = 0;
  for (int i = 0; i < 20; ++i) {
    middling += Asked(&schedule, "a", kMiddling, 10'000, &clock);
    dear += Asked(&schedule, "a", kDear, 10'000, &clock);
  }
  EXPECT_GE(middling, 140);
  EXPECT_EQ(dear, 1);  // 200 s of their own: 6 s saved, 5 s spent
}

// Fails if a regime's saved time pays for another regime's case.
TEST(ArbiterSchedule, RegimesDoNotShareTheirTime) {
  ArbiterSchedule schedule(kArbitratedPerMinute);
  double clock = 0;
  Asked(&schedule, "a", kMiddling, 1'000, &clock);  // 30 ms saved: not enough
  EXPECT_EQ(Asked(&schedule, "b", kMiddling, 1'000, &clock), 0);
  EXPECT_EQ(Asked(&schedule, "a", kMiddling, 400, &clock), 1);
}

}  // namespace
}  // namespace plumbline::fuzz
