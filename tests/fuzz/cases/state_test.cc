// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/state.h"

#include <gtest/gtest.h>

#include <set>

#include "fuzz/triage/replay.h"

namespace plumbline::fuzz {
namespace {

using enum CaseState;
using enum Replayed;

constexpr CaseState kStates[] = {kNew, kConfirmed, kFixed, kRegression};
constexpr Replayed kAll[] = {kFails,   kFailsOnce, kFailsDifferently, kPasses, kSkipped,
                             kVacuous, kFault};

// Checks every cell of the header's table: a state that is not listed stays.
TEST(CaseState, MovesAsTheTableSays) {
  struct Move {
    CaseState from;
    Replayed seen;
    CaseState to;
  };
  const Move moves[] = {{kNew, kFails, kConfirmed},       {kConfirmed, kPasses, kFixed},
                        {kFixed, kPasses, kRegression},   {kFixed, kFails, kConfirmed},
                        {kFixed, kFailsOnce, kConfirmed}, {kFixed, kFailsDifferently, kConfirmed}};
  for (const CaseState from : kStates) {
    for (const Replayed seen : kAll) {
      CaseState expected = from;
      for (const Move& move : moves) {
        if (move.from == from && move.seen == seen) expected = move.to;
      }
      EXPECT_EQ(After(from, seen), expected) << Name(from) << ", " << Name(seen);
    }
  }
}

// Fails for a regression that some replay can leave; a defect that comes back unreported.
TEST(CaseState, ARegressionIsForever) {
  for (const Replayed seen : kAll) {
    EXPECT_EQ(After(kRegression, seen), kRegression);
    const bool fails = seen == kFails || seen == kFailsOnce || seen == kFailsDifferently;
    EXPECT_EQ(CameBack(kRegression, seen), fails);
    EXPECT_EQ(CameBack(kFixed, seen), fails);
    EXPECT_FALSE(CameBack(kNew, seen) || CameBack(kConfirmed, seen));
  }
}

TEST(CaseState, NamesAreDistinctAndReadBack) {
  std::set<std::string_view> names;
  for (const CaseState state : kStates) {
    EXPECT_EQ(ValueOf<CaseState>(Name(state), kCaseStateNames), state);
    names.insert(Name(state));
  }
  EXPECT_EQ(names.size(), 4U);
  EXPECT_FALSE(ValueOf<CaseState>("done", kCaseStateNames));
  EXPECT_FALSE(ValueOf<CaseState>("", kCaseStateNames));
}

// Fails for a move without its entry, a history that grows for ever or loses its newest entry.
TEST(CaseState, TheHistoryIsKeptAndBounded) {
  Case c;
  Replay replay;
  replay.target_version = "7";
  for (int i = 0; i < 30; ++i) {
    replay.what = c.state == kNew || c.state == kFixed ? kFails : kPasses;
    ASSERT_TRUE(Advance(&c, replay));
  }
  const Json::Array& history = *c.extra.Find("history")->as_array();
  EXPECT_EQ(history.size(), 8U);
  EXPECT_EQ(*history.back().Find("to")->as_string(), Name(c.state));
  EXPECT_EQ(*history.back().Find("target_version")->as_string(), "7");
  const Json before = c.extra;
  replay.what = kSkipped;
  EXPECT_FALSE(Advance(&c, replay));
  EXPECT_EQ(c.extra, before);
}

// Fails for a history in a foreign file that is not a list but is taken for one.
TEST(CaseState, AForeignHistoryIsReplaced) {
  Case c;
  c.extra["history"] = "x";
  Replay replay;
  replay.what = kFails;
  ASSERT_TRUE(Advance(&c, replay));
  EXPECT_EQ(c.extra.Find("history")->as_array()->size(), 1U);
}

}  // namespace
}  // namespace plumbline::fuzz
