// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/reproduce/reproduction.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "fuzz/base/mix.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// Fails if an answer is lost, or counted twice.
TEST(Repeat, CountsWhatFails) {
  int64_t calls = 0;
  const auto two_of_three = [&] { return ++calls % 3 != 0; };
  EXPECT_EQ(Repeat(5, milliseconds(60'000), two_of_three), (Repeats{4, 5}));
  EXPECT_EQ(calls, 5);
}

// Fails if a limit of zero gives no answer at all, or if the limit is ignored.
TEST(Repeat, AsksOnceAtLeastAndStopsAtTheLimit) {
  int64_t calls = 0;
  EXPECT_EQ(Repeat(5, milliseconds(0), [&] { return ++calls > 0; }), (Repeats{1, 1}));
  EXPECT_EQ(calls, 1);
}

// Fails if half of the runs, or none at all, count as a majority.
TEST(Repeats, AlwaysAndMajority) {
  EXPECT_TRUE((Repeats{5, 5}).Always());
  EXPECT_FALSE((Repeats{4, 5}).Always());
  EXPECT_FALSE((Repeats{0, 0}).Always());
  EXPECT_TRUE((Repeats{3, 5}).Majority());
  EXPECT_FALSE((Repeats{2, 5}).Majority());
  EXPECT_FALSE((Repeats{2, 4}).Majority());
}

// Tries every pattern of five answers. Fails if a vote goes on after it is decided, or is decided too
// early.
TEST(MajorityFails, AsksNoMoreThanItTakes) {
  for (unsigned pattern = 0; pattern < 32; ++pattern) {
    int64_t asked = 0, yes = 0, no = 0, needed = 0;
    for (unsigned i = 0; i < 5; ++i) {
      ++((pattern >> i & 1) != 0 ? yes : no);
      if (needed == 0 && (yes == 3 || no == 3)) needed = i + 1;
    }
    const bool majority = MajorityFails(5, [&] { return (pattern >> asked++ & 1) != 0; });
    EXPECT_EQ(majority, yes > no) << pattern;
    EXPECT_EQ(asked, needed) << pattern;
  }
}

// The target fails 7 times in 10 where it fails at all, and 1 time in 10 elsewhere. With one run a
// candidate, most shrinks take a step that does not fail, since they have hundreds of candidates to be
// wrong about. The majority of five is wrong once in 117, and of the steps that it takes nearly all are
// right. Fails if the shrinker asks once.
TEST(MajorityFails, HoldsOnToWhatFailsNowAndThen) {
  int64_t right_by_majority = 0, right_by_one = 0;
  constexpr int64_t kShrinks = 20;
  for (uint64_t seed = 0; seed < kShrinks; ++seed) {
    OwnedProblem start = Busy(6, 20, 8);
    start.hidden.SetFloat(19, 5);
    const auto really = [](const OwnedProblem& p) { return Largest(p.hidden) > 3; };
    for (const bool by_majority : {true, false}) {
      uint64_t draws = 0;
      const auto sometimes = [&](const OwnedProblem& p) {
        return Mix(seed, draws++) % 10 < (really(p) ? 7u : 1u);
      };
      const auto fails = [&](const OwnedProblem& p) {
        return by_majority ? MajorityFails(kRepeats, [&] { return sometimes(p); }) : sometimes(p);
      };
      const ShrinkResult r = Shrink(start, {"logprob", 2, -1}, fails, Unhurried());
      (by_majority ? right_by_majority : right_by_one) += really(r.problem) ? 1 : 0;
    }
  }
  EXPECT_GT(right_by_majority, right_by_one + kShrinks / 4);
}

}  // namespace
}  // namespace plumbline::fuzz
