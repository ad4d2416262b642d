// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/status_line.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <string>

#include "fuzz/base/json.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// Two targets, 40 cases, 10 of them of an earlier run.
Progress OfTwoTargets() {
  Tally a, b;
  a.cases = 30;
  a.pass = 25;
  a.fail = 3;
  a.suspect = 1;
  a.vacuous = 1;
  a.tightness = {{"logprob", 0.5}, {"lse", 0.25}};
  a.elements = {50, 0, 50, 0};
  b.cases = 10;
  b.pass = 6;
  b.skipped = 4;
  b.tightness = {{"logprob", std::numeric_limits<double>::infinity()}};
  b.elements = {100, 0, 0, 0};
  Progress progress;
  progress.phase = Phase::kLevelOne;
  progress.elapsed = milliseconds(7000);
  progress.budget = {.time = std::chrono::seconds(600), .cases = 0};
  progress.targets = {{"host", a}, {"other", b}};
  progress.cases_before = 10;
  progress.in_this_run = 2;
  progress.findings = {.wrong = 3, .suspect = 1};
  progress.cells = 21;
  progress.newest = milliseconds(3000);
  progress.activity = {"shrinking bound:lse"};
  return progress;
}

// Fails if totals cover one target only, if the rate counts an earlier run's cases, if cases that were
// skipped or vacuous count as judged, if wrong and suspect are one number, if a number takes precedence
// over an infinite tightness, or if the line wraps.
TEST(StatusLine, HasTheTotalsOfAllTargets) {
  const Progress progress = OfTwoTargets();
  EXPECT_EQ(StatusLine(progress),
            "level one  7s of 10m  9m53s left  40 cases  87% judged  3 wrong  1 suspect  15/s  "
            "shrinking bound:lse  error/allowed logprob inf  21 cells, last new 4s ago  25.0% vacuous  "
            "4 skipped");
  EXPECT_EQ(StatusLine(progress, 20), "level one  7s of 10m");
}

// Fails if what a person asks first is cut off on a terminal of 80 columns.
TEST(StatusLine, FitsATerminal) {
  Progress progress = OfTwoTargets();
  progress.targets.front().second.cases = 123456;
  progress.targets.front().second.pass = 123452;
  progress.in_this_run = 40;
  const std::string line = StatusLine(progress, 79);
  EXPECT_NE(line.find("  3 wrong  1 suspect"), std::string::npos) << line;
}

// Fails if a budget of cases is taken for one target's, if an end that has passed is negative, or if a
// time is made up where nothing was judged yet.
TEST(StatusLine, TimeLeft) {
  Progress progress = OfTwoTargets();
  progress.budget.cases = 100;
  EXPECT_EQ(TimeLeft(progress), milliseconds(10'666));  // 160 of 200 cases at 15 a second
  progress.budget.cases = 20;
  EXPECT_EQ(TimeLeft(progress), milliseconds(0));
  progress.cases_before = 40;
  progress.budget.cases = 100;
  EXPECT_EQ(TimeLeft(progress), std::nullopt);
  EXPECT_EQ(StatusLine(progress).find("left"), std::string::npos);
  progress.budget = {.time = std::chrono::seconds(5), .cases = 0};
  EXPECT_EQ(TimeLeft(progress), milliseconds(0));
  progress.budget.time = std::chrono::hours(3);
  EXPECT_NE(StatusLine(progress).find("  2h59m left  "), std::string::npos);
  progress.phase = Phase::kRecipe;
  EXPECT_EQ(TimeLeft(progress), std::nullopt);
}

// Fails if a machine reads other numbers than a person, or a key is missing.
TEST(StatusLine, Json) {
  std::string error;
  const auto read = Json::Parse(ToJson(OfTwoTargets()).Dump(), &error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(read->Dump(),
            R"({"a_second":15.0,"activity":["shrinking bound:lse"],"budget":"10m","budget_seconds":600.0,)"
            R"("cases":40,"cells":21,"judged":35,"left_seconds":593.0,"phase":"level one","seconds":7.0,)"
            R"("since_new_cell":4.0,"skipped":4,"suspect":1,"tightest":{"logprob":"inf"},"wrong":3})");
  Progress progress = OfTwoTargets();
  progress.budget.cases = 100;
  EXPECT_EQ(*ToJson(progress).Find("budget_cases")->as_int(), 200);
  EXPECT_EQ(ToJson(progress).Find("budget_seconds"), nullptr);
}

}  // namespace
}  // namespace plumbline::fuzz
