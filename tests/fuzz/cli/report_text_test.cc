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

RankedFinding Alone(const Sighting& sighting) {
  RankedFinding finding;
  finding.sighting = sighting;
  return finding;
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
  EXPECT_THAT(SummaryText(summary, "plumb", false),
              HasSubstr("no failure in 800 judged cases, none of them a blind draw"));
  summary.yields = {{{"edges", {.cases = 700, .new_cells = 7, .tightness = 0.5, .blind = 400}},
                     {"huge", {.cases = 300, .fail = 1, .blind = 200, .blind_fail = 1}}}};
  const std::string text = SummaryText(summary, "plumb", true);
  EXPECT_THAT(text, HasSubstr("no failure in 800 judged cases; from the 600 blind ones: with 95 % "
                              "confidence under 0.005 per case"));
  EXPECT_THAT(text, HasSubstr("150 skipped: no fp16"));
  // By regime it is 3 / 400, and nothing where a case failed.
  EXPECT_THAT(text,
              HasSubstr("edges     700      0.0         0          7            0.5       0.0075\n"));
  EXPECT_THAT(text, HasSubstr("huge      300      0.0         0          0              0\n"));
  const std::string brief = SummaryText(summary, "plumb", false);
  EXPECT_THAT(brief, HasSubstr("host: 1000 cases of 2 regimes, each aimed at one way of being wrong; "
                               "--verbose lists them\n"));
  EXPECT_THAT(brief, Not(HasSubstr("new cells")));
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
  EXPECT_THAT(SummaryText(summary, "plumb", false),
              HasSubstr("host: 40 cells of outputs, classes and shapes were seen, the last new one 12 "
                        "cases and 15.0 s before the end; a further blind case shows another with a "
                        "chance of about 0.1, at most 0.16 with 95 % confidence\n"));
}

// Fails if "no failure" is said of a target that was never judged, or that failed.
TEST(ReportText, NothingIsClaimedWhereNothingWasJudged) {
  Tally tally;
  tally.cases = tally.skipped = 5;
  std::string text = SummaryText(SummaryOf(tally), "plumb", false);
  EXPECT_THAT(text, HasSubstr("nothing is known"));
  EXPECT_THAT(text, Not(HasSubstr("no failure")));
  tally = {};
  tally.cases = 2;
  tally.pass = tally.fail = 1;
  text = SummaryText(SummaryOf(tally), "plumb", false);
  EXPECT_THAT(text, HasSubstr("1 of 2 judged cases fail"));
  EXPECT_THAT(text, Not(HasSubstr("no failure")));
}

// Fails if a suspect case is called a failure, or is passed over in silence.
TEST(ReportText, SuspectIsNotWrong) {
  Tally tally;
  tally.cases = 5;
  tally.pass = 3;
  tally.suspect = 2;
  CampaignSummary summary = SummaryOf(tally);
  summary.not_shown = {{"exponentials that are flushed"}};
  const std::string text = SummaryText(summary, "plumb", false);
  EXPECT_THAT(text, HasSubstr("2 of 5 judged cases are suspect, none is wrong"));
  EXPECT_THAT(text, HasSubstr("host: cannot show: exponentials that are flushed\n"));
  EXPECT_THAT(text, Not(HasSubstr("no failure")));
  Sighting sighting;
  sighting.finding.what = "lse[0] = 1";
  EXPECT_THAT(FindingBlock(Alone(sighting), 1, "", "plumb", "", false),
              HasSubstr("finding 1: lse[0] = 1\n  wrong    "));
  sighting.finding.suspect = true;
  EXPECT_THAT(FindingBlock(Alone(sighting), 1, "", "plumb", "", false),
              ::testing::ContainsRegex("finding 1: lse\\[0\\] = 1\n  suspect  .*\n"
                                       "           no single form that a contract can declare"));
  sighting.finding.readings = {{"sums are in order", "\"tile\": 1"}};
  EXPECT_THAT(FindingBlock(Alone(sighting), 1, "", "plumb", "", false),
              HasSubstr("no defect if sums are in order: declare \"tile\": 1 in its contract\n"));
}

// Fails if a finding's text does not begin with its effect, leaves out a signature or how far it
// reaches, prints an extent that does not matter, or calls the purpose of the regime its reason.
TEST(ReportText, AFindingBeginsWithItsEffect) {
  RankedFinding finding;
  finding.sighting.target = "t";
  finding.sighting.signature = "bound:lse";
  finding.sighting.item = 7;
  finding.sighting.regime = "ragged-tail";
  finding.sighting.kept.emplace();
  finding.sighting.kept->finding.what = "lse[0] = 5 where 4 +- 1 is required";
  finding.sighting.kept->explain = {"V: fails where V mod 8 is 1 (41 tried, 1 to 320)",
                                    "N: any (11 tried, 1 to 65)", "hidden: any finite values"};
  finding.reach = {.showed = 3, .of = 60};
  finding.parts = {"bound:logprob", "suspect-bound:lse"};
  const std::string text = FindingBlock(finding, 2, "labels at the edges", "plumb", "out", false);
  EXPECT_THAT(text,
              ::testing::StartsWith("finding 2: lse[0] = 5 where 4 +- 1 is required\n"
                                    "  wrong    bound:lse on t; wrong, in 3 of 60 judged cases "
                                    "that could show it (5 %)\n"
                                    "  also     bound:logprob, suspect-bound:lse\n"
                                    "  needs    V: fails where V mod 8 is 1 (41 tried, 1 to 320)\n"
                                    "  shrunk   "));
  EXPECT_THAT(text, HasSubstr("  drawn by ragged-tail: labels at the edges (case 7, 0.0 s)\n"));
  EXPECT_THAT(text, Not(HasSubstr("why")));
}

// Fails if an interrupted campaign whose folder has a blank in its name cannot be resumed as printed.
TEST(ReportText, AnInterruptedCampaignPrintsItsResumeCommand) {
  CampaignSummary summary = SummaryOf({});
  summary.status = ExitStatus::kInterrupted;
  EXPECT_THAT(SummaryText(summary, "build/plumb", false),
              HasSubstr("build/plumb fuzz --resume 'out dir'\n"));
}

// Fails if a finding that the arbiter was not asked about does not say so, or if the summary says that
// it agrees on each without saying of what it was not asked.
TEST(ReportText, WhatTheArbiterWasNotAskedIsSaid) {
  Sighting sighting;
  sighting.signature = "bound:grad_weight";
  sighting.target = "host";
  sighting.finding.what = "grad_weight[0, 0] is off";
  sighting.finding.arbiter_silent = "it would take about 12 s";
  EXPECT_THAT(FindingBlock(Alone(sighting), 1, "", "plumb", "out", false),
              HasSubstr("the arbiter was not asked: it would take about 12 s\n"));
  Tally tally;
  tally.arbitrated = 3;
  CampaignSummary summary = SummaryOf(tally);
  EXPECT_THAT(SummaryText(summary, "plumb", false), Not(HasSubstr("was not asked")));
  summary.sightings = {sighting};
  EXPECT_THAT(SummaryText(summary, "plumb", false),
              HasSubstr("host: the arbiter was asked about 3 elements and agrees on each\n"
                        "host: the arbiter was not asked about 1 findings, each of which says why\n"));
}

// Fails if a convention is not listed, or without its target.
TEST(ReportText, ConventionsAreListed) {
  Tally tally;
  tally.conventions.Note(oracle::Convention::kEmptyMean, true);
  EXPECT_THAT(SummaryText(SummaryOf(tally), "plumb", false),
              HasSubstr("host: convention: the mean of no row: NaN; the definition has 0\n"));
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
  EXPECT_EQ(VerdictLine(ExitStatus::kFindings, {.cases = 1234, .judged = 1200, .findings = 2}),
            "plumb: verdict=findings cases=1234 judged=1200 findings=2 status=1");
}

}  // namespace
}  // namespace plumbline::fuzz
