// SPDX-License-Identifier: Apache-2.0
#include "fuzz/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CampaignSummary SummaryOf(const Tally& tally) {
  CampaignSummary summary;
  summary.options.out = "out dir";
  summary.targets = {{"host", tally}};
  return summary;
}

// Kills: skipped and vacuous cases that lend the statement confidence which they do not have. 3 / 600 =
// 0.005; with the 400 others it would be 0.003.
TEST(ReportText, TheRuleOfThreeCountsJudgedCasesOnly) {
  Tally tally;
  tally.cases = 1000;
  tally.pass = 600;
  tally.skipped = 300;
  tally.vacuous = 100;
  tally.skip_reasons["no fp16"] = 300;
  const std::string text = SummaryText(SummaryOf(tally), "plumb");
  EXPECT_THAT(text, HasSubstr("no failure in 600 cases: with 95 % confidence under 0.005 per case"));
  EXPECT_THAT(text, HasSubstr("300 skipped: no fp16"));
}

// Kills: "no failure" said of a target that was never judged, or that failed.
TEST(ReportText, NothingIsClaimedWhereNothingWasJudged) {
  Tally tally;
  tally.cases = tally.skipped = 5;
  std::string text = SummaryText(SummaryOf(tally), "plumb");
  EXPECT_THAT(text, HasSubstr("nothing is known"));
  EXPECT_THAT(text, Not(HasSubstr("no failure")));
  tally = {};
  tally.cases = 2;
  tally.pass = tally.fail = 1;
  text = SummaryText(SummaryOf(tally), "plumb");
  EXPECT_THAT(text, HasSubstr("1 of 2 judged cases fail"));
  EXPECT_THAT(text, Not(HasSubstr("no failure")));
}

// Kills: an interrupted campaign whose folder has a blank in its name and cannot be gone on with as
// printed.
TEST(ReportText, AnInterruptedCampaignPrintsItsResumeCommand) {
  CampaignSummary summary = SummaryOf({});
  summary.status = ExitStatus::kInterrupted;
  EXPECT_THAT(SummaryText(summary, "build/plumb"), HasSubstr("build/plumb fuzz --resume 'out dir'\n"));
}

// Kills: a tightness of one output shown for another, an infinite one shown as a number, totals of one
// target only.
TEST(ReportText, TheStatusLineHasTheTotalsOfAllTargets) {
  Tally a, b;
  a.cases = 30;
  a.tightness = {{"logprob", 0.5}, {"lse", 0.25}};
  a.elements = {50, 0, 50, 0};
  b.cases = 10;
  b.skipped = 4;
  b.tightness = {{"logprob", std::numeric_limits<double>::infinity()}};
  b.elements = {100, 0, 0, 0};
  Progress progress;
  progress.elapsed = std::chrono::milliseconds(2000);
  progress.targets = {{"host", a}, {"other", b}};
  progress.findings = 3;
  progress.activity = {"shrinking bound:lse"};
  const std::string line = StatusLine(progress);
  for (const char* part : {"2s  40 cases  20/s  3 findings", "logprob=inf lse=0.25", "25.0% vacuous",
                           "4 skipped", "shrinking bound:lse"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

// Kills: columns that shift with their content; words of letters that numbers hold, too, taken for
// numbers.
TEST(ReportText, TablesAlign) {
  EXPECT_EQ(Table({{"name", "n"}, {"a", "100"}, {"long name", "7"}}),
            "name       n\n"
            "a          100\n"
            "long name    7\n");
}

TEST(ReportText, TheVerdictLineIsAsDocumented) {
  EXPECT_EQ(VerdictLine(ExitStatus::kFindings, 1234, 2),
            "plumb: verdict=findings cases=1234 findings=2 status=1");
}

}  // namespace
}  // namespace plumbline::fuzz
