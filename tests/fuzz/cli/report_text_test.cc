// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/report_text.h"

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

// Fails if skipped, vacuous, guided or stored cases add confidence to the statement. 3 / 600 = 0.005;
// with the other 400 it would be 0.003.
TEST(ReportText, TheRuleOfThreeCountsBlindJudgedCasesOnly) {
  Tally tally;
  tally.cases = 1000;
  tally.pass = 800;
  tally.skipped = 150;
  tally.vacuous = 50;
  tally.skip_reasons["no fp16"] = 150;
  CampaignSummary summary = SummaryOf(tally);
  EXPECT_THAT(SummaryText(summary, "plumb"),
              HasSubstr("no failure in 800 judged cases, none of them a blind draw"));
  summary.yields = {{{"edges", {.cases = 700, .new_cells = 7, .tightness = 0.5, .blind = 400}},
                     {"huge", {.cases = 300, .fail = 1, .blind = 200, .blind_fail = 1}}}};
  const std::string text = SummaryText(summary, "plumb");
  EXPECT_THAT(text, HasSubstr("no failure in 800 judged cases; from the 600 blind ones: with 95 % "
                              "confidence under 0.005 per case"));
  EXPECT_THAT(text, HasSubstr("150 skipped: no fp16"));
  // By regime it is 3 / 400, and nothing where a case failed.
  EXPECT_THAT(text,
              HasSubstr("edges     700      0.0         0          7            0.5       0.0075\n"));
  EXPECT_THAT(text, HasSubstr("huge      300      0.0         0          0              0\n"));
}

// Fails if the text says "no bugs". The chance of something unseen is stated as a number.
TEST(ReportText, WhatWasNotSeenHasAChance) {
  Tally tally;
  tally.cases = tally.pass = 100;
  CampaignSummary summary = SummaryOf(tally);
  summary.elapsed = std::chrono::seconds(60);
  summary.coverage = {{.cells = 40,
                       .cases = 100,
                       .blind = 100,
                       .cases_since_new = 12,
                       .newest = std::chrono::seconds(45),
                       .chance = {.estimate = 0.1, .at_most = 0.1637}}};
  EXPECT_THAT(SummaryText(summary, "plumb"),
              HasSubstr("host: 40 cells of outputs, classes and shapes were seen, the last new one 12 "
                        "cases and 15.0 s before the end; a further blind case shows another with a "
                        "chance of about 0.1, at most 0.16 with 95 % confidence\n"));
}

// Fails if "no failure" is said of a target that was never judged, or that failed.
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

// Fails if an interrupted campaign whose folder has a blank in its name cannot be resumed as printed.
TEST(ReportText, AnInterruptedCampaignPrintsItsResumeCommand) {
  CampaignSummary summary = SummaryOf({});
  summary.status = ExitStatus::kInterrupted;
  EXPECT_THAT(SummaryText(summary, "build/plumb"), HasSubstr("build/plumb fuzz --resume 'out dir'\n"));
}

// Fails if a finding that the arbiter was not asked about does not say so, or if the summary says that
// it agrees on each without saying of what it was not asked.
TEST(ReportText, WhatTheArbiterWasNotAskedIsSaid) {
  Sighting sighting;
  sighting.signature = "bound:grad_weight";
  sighting.target = "host";
  sighting.finding.what = "grad_weight[0, 0] is off";
  sighting.finding.arbiter_silent = "it would take about 12 s";
  EXPECT_THAT(FindingBlock(sighting, 1, "", "plumb", "out", false),
              HasSubstr("the arbiter was not asked: it would take about 12 s\n"));
  Tally tally;
  tally.arbitrated = 3;
  CampaignSummary summary = SummaryOf(tally);
  EXPECT_THAT(SummaryText(summary, "plumb"), Not(HasSubstr("was not asked")));
  summary.sightings = {sighting};
  EXPECT_THAT(SummaryText(summary, "plumb"),
              HasSubstr("host: the arbiter was asked about 3 elements and agrees on each\n"
                        "host: the arbiter was not asked about 1 findings, each of which says why\n"));
}

// Fails if a convention is not listed, or without its target.
TEST(ReportText, ConventionsAreListed) {
  Tally tally;
  tally.conventions.Note(oracle::Convention::kEmptyMean, true);
  EXPECT_THAT(SummaryText(SummaryOf(tally), "plumb"),
              HasSubstr("host: convention: the mean of no row: NaN; the definition has 0\n"));
}

// Fails if totals cover one target only, if the rate counts an earlier run's cases, if a number takes
// precedence over an infinite tightness, or if the line wraps.
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
  progress.phase = Phase::kLevelOne;
  progress.elapsed = std::chrono::milliseconds(7000);
  progress.budget = {.time = std::chrono::seconds(60), .cases = 0};
  progress.targets = {{"host", a}, {"other", b}};
  progress.cases_before = 10;
  progress.in_this_run = 2;
  progress.findings = 3;
  progress.cells = 21;
  progress.newest = std::chrono::milliseconds(3000);
  progress.activity = {"shrinking bound:lse"};
  EXPECT_EQ(
      StatusLine(progress),
      "level one  7s of 1m  40 cases  15/s  3 findings  shrinking bound:lse  error/allowed logprob "
      "inf  21 cells, last new 4s ago  25.0% vacuous  4 skipped");
  EXPECT_EQ(StatusLine(progress, 20), "level one  7s of 1m ");
}

// Fails if columns shift with their content, or if words of letters that numbers also contain are taken
// for numbers.
TEST(ReportText, TablesAlign) {
  EXPECT_EQ(Table({{"name", "n"}, {"a", "100"}, {"long name", "7"}}),
            "name       n\n"
            "a          100\n"
            "long name    7\n");
}

// Fails if a key, its order or the spelling of a verdict changes: scripts read this line.
TEST(ReportText, TheVerdictLineIsAsDocumented) {
  EXPECT_EQ(VerdictLine(ExitStatus::kFindings, 1234, 2),
            "plumb: verdict=findings cases=1234 findings=2 status=1");
}

}  // namespace
}  // namespace plumbline::fuzz
