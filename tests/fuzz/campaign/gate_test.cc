// SPDX-License-Identifier: Apache-2.0
//
// Campaigns of a gate: fixed cases, and what is accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/search.h"
#include "fuzz/campaign/search/target_draws.h"
#include "fuzz/recipe/recipe.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GateTest : public ::testing::Test {
 protected:
  CampaignOptions Options(const std::string& target, int64_t cases, const std::string& out) const {
    CampaignOptions options;
    options.targets = {target};
    options.seed = 1;
    options.budget = Budget{.time = 0ms, .cases = cases};
    options.gate = true;
    options.palette = 0;
    options.shrink_tries = 300;
    options.out = work_ / out;
    options.program = PLUMB_PROGRAM;
    options.case_timeout = 10min;
    options.jobs = 1;
    return options;
  }
  CampaignSummary Run(const CampaignOptions& options) const { return RunCampaign(options, interrupt_); }

  // What a gate says, without its times.
  static std::vector<std::string> Said(const CampaignSummary& summary) {
    std::vector<std::string> said = {std::string(Name(summary.status)),
                                     ToJson(summary.targets.at(0).second).Dump()};
    for (const Sighting& sighting : summary.sightings) {
      said.push_back(sighting.signature + " in " + std::to_string(sighting.item) + ": " +
                     sighting.finding.what + sighting.recipe);
    }
    return said;
  }

  testing::Workplace work_;
  const std::atomic<bool> interrupt_{false};
};

// The plug-in fails in a fixed order of its calls, so its verdict on a case depends on how many cases
// its process had before. Fails if a group of cases begins in a worker that another has used, or if the
// first case of a signature is the first to arrive.
TEST_F(GateTest, TheNumberOfJobsChangesNothing) {
  const std::string fickle = work_.Plugin("fickle.c", "sometimes", "-DSOMETIMES");
  CampaignOptions alone = Options(fickle, 300, "alone"), together = Options(fickle, 300, "together");
  together.jobs = 3;
  const CampaignSummary first = Run(alone);
  EXPECT_EQ(first.status, ExitStatus::kFindings) << first.error;
  EXPECT_EQ(first.targets.at(0).second.cases, 300);
  EXPECT_EQ(Said(first), Said(Run(together)));
}

// Fails if a gate's case depends on the results of others, or if two of its cases are the same.
TEST_F(GateTest, CasesAreAFunctionOfTheOptions) {
  CampaignOptions options = Options("host", 1, "unused");
  Plan plan(options, {});
  const std::vector<TargetDraws> draws(1);
  Search with(plan, RegimesOf(options), draws), without(plan, RegimesOf(options), draws);
  std::set<std::string> lines;
  for (int64_t i = 0; i < 20'000; i += i < 3'000 ? 1 : 97) {
    ASSERT_FALSE(plan.At(i).guided) << i;
    ASSERT_TRUE(without.Ready(i)) << i;
    const std::string line = Format(without.Draw(i));
    EXPECT_TRUE(lines.insert(line).second) << i;
    if (i < 1'500) {
      CaseRecord record;
      record.regime = plan.At(i).phase == Phase::kSearch ? "common-offset" : "huge";
      record.tightness["lse"] = 0.9;
      EXPECT_EQ(Format(with.Draw(i)), line);
      with.Take(i, std::move(record), 0ms);
    }
  }
}

// The mutant shows one finding, bound:logprob with the part bound:loss. Fails if an accepted finding
// fails the build, if a part is accepted with the rest, if an entry that no longer fails is not
// noticed, or if one of another target is.
TEST_F(GateTest, WhatIsAcceptedNeitherFailsNorHidesTheRest) {
  CampaignOptions options = Options("mutant:plain-logprob", 60, "o");
  KnownFinding logprob, gone, elsewhere;
  logprob.signature = "bound:logprob";
  gone.signature = elsewhere.signature = "crash";
  gone.target = "mutant:plain-logprob";
  elsewhere.target = "host";
  options.known = {logprob, gone, elsewhere};
  CampaignSummary summary = Run(options);
  EXPECT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_EQ(summary.ranking.size(), 1U);
  EXPECT_THAT(NotAccepted(summary, summary.ranking.front()), ElementsAre("bound:loss"));
  EXPECT_EQ(CountNotAccepted(summary), 1);
  EXPECT_THAT(NoLongerSeen(summary), ElementsAre(1U));

  logprob.also = {"bound:loss"};
  options.known = {logprob};
  options.out = work_ / "p";
  summary = Run(options);
  EXPECT_EQ(summary.status, ExitStatus::kClean) << summary.error;
  EXPECT_EQ(CountNotAccepted(summary), 0);
  EXPECT_THAT(NoLongerSeen(summary), IsEmpty());
}

}  // namespace
}  // namespace plumbline::fuzz
