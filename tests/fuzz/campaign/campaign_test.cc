// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "fuzz/campaign/journal.h"
#include "fuzz/cases/file.h"
#include "fuzz/triage/pursuit.h"
#include "fuzz/triage/replay.h"
#include "fuzz/worker/case_runner.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Returns the totals of the only target, without the numbers that depend on the arbiter's time.
Json WithoutTime(const CampaignSummary& summary) {
  Tally tally = summary.targets[0].second;
  tally.arbitrated = 0;
  return ToJson(tally);
}

// Pulls a campaign, and sets the interrupt at its first sighting if it is to.
class Watcher {
 public:
  CampaignSummary Run(const CampaignOptions& options) {
    Campaign campaign(options, interrupt);
    std::vector<CampaignEvent> events;
    while (campaign.Next(100ms, &events)) {
      for (const CampaignEvent& event : events) Take(event);
    }
    return campaign.Finish();
  }

  bool interrupt_at_sighting = false;
  std::atomic<bool> interrupt{false};
  std::vector<std::string> told;  // the events, in their order

 private:
  void Take(const CampaignEvent& event) {
    using Kind = CampaignEvent::Kind;
    EXPECT_NE(event.kind, Kind::kFault) << event.text;
    if (event.kind == Kind::kNote) told.push_back("note");
    if (event.kind == Kind::kSighting) told.push_back("seen " + event.sighting.signature);
    if (event.kind == Kind::kStored) told.push_back("stored " + event.sighting.signature);
    if (event.kind == Kind::kSighting && interrupt_at_sighting) interrupt = true;
  }
};

// Only a machine on which nothing works reaches this limit.
constexpr std::chrono::minutes kAmple{10};

class CampaignTest : public ::testing::Test {
 protected:
  CampaignOptions Options(const std::string& target, int64_t cases, const std::string& out) const {
    CampaignOptions options;
    options.targets = {target};
    options.seed = 1;
    options.budget = Budget{.time = 0ms, .cases = cases};
    options.out = work_ / out;
    options.program = PLUMB_PROGRAM;
    options.case_timeout = kAmple;
    options.shrink_time = kAmple;
    options.jobs = 1;
    return options;
  }
  // Resumes the campaign in `out`.
  CampaignOptions Resumed(const std::string& out) const {
    CampaignOptions options;
    options.resume = true;
    options.out = work_ / out;
    options.program = PLUMB_PROGRAM;
    options.shrink_time = kAmple;
    options.jobs = 1;
    return options;
  }
  static std::set<SightingKey> Keys(const CampaignSummary& summary) {
    std::set<SightingKey> keys;
    for (const Sighting& s : summary.sightings) keys.emplace(s.target, s.signature);
    for (const Sighting& s : summary.parts) keys.emplace(s.target, s.signature);
    return keys;
  }

  testing::Workplace work_;
  Watcher watcher_;
};

// Fails if a campaign that judged nothing reports clean, or if the clean operator has a finding.
TEST_F(CampaignTest, TheHostIsCleanAndWasJudged) {
  const CampaignSummary summary = watcher_.Run(Options("host", 40, "out"));
  EXPECT_EQ(summary.status, ExitStatus::kClean) << summary.error;
  ASSERT_EQ(summary.targets.size(), 1U);
  const Tally& tally = summary.targets[0].second;
  EXPECT_EQ(tally.cases, 40);
  EXPECT_GE(tally.pass, 35);
  EXPECT_GT(tally.elements[0], 1'000);
  EXPECT_FALSE(tally.tightness.empty());
  EXPECT_TRUE(std::filesystem::exists(work_ / "out" / "summary.json"));
}

// The plug-in's lse is an ulp larger where the label lies in the first half of the vocabulary, which is
// within every bound. Fails if a campaign does not check relations, if the shrinker loses the relation
// that it began with, or if a stored case does not show it again.
TEST_F(CampaignTest, ARelationThatBreaksIsAFindingOfItsOwn) {
  const std::string plugin = work_.Plugin("faulty.c", "by_column", "-DFAULT=BITS_BY_COLUMN");
  CampaignOptions options = Options(plugin, 3'000, "out");
  options.stop_after = 1;
  const CampaignSummary summary = watcher_.Run(options);
  EXPECT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_GE(summary.sightings.size(), 1U);
  const Sighting& sighting = summary.sightings[0];
  EXPECT_THAT(sighting.signature, ::testing::MatchesRegex("relation:.*:lse"));
  ASSERT_TRUE(sighting.kept);
  std::string error;
  const auto c = ReadCase(options.out / sighting.kept->file, &error);
  ASSERT_TRUE(c) << error;
  EXPECT_EQ(c->state, CaseState::kConfirmed);
  EXPECT_EQ(c->finding.Signature(), sighting.signature);
  EXPECT_LE(ValueCount(c->problem), 8);
  WorkerSpec spec;
  spec.target = plugin;
  spec.program = PLUMB_PROGRAM;
  CaseRunner runner(spec, kAmple, &watcher_.interrupt);
  const Replay replay = ReplayCase(*c, &runner);
  EXPECT_EQ(replay.what, Replayed::kFails) << replay.detail;
  EXPECT_THAT(replay.detail, HasSubstr(c->finding.relation + ": lse["));
}

// Fails if a finding is not shrunk, if its file or its recipe line does not show it, or if its case
// does not say where it came from. Fails too if an event is lost or out of its order.
TEST_F(CampaignTest, AFindingIsShrunkStoredAndReproducibleTwice) {
  CampaignOptions options = Options("mutant:plain-logprob", 400, "out");
  options.stop_after = 1;
  const CampaignSummary summary = watcher_.Run(options);
  ASSERT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_EQ(summary.sightings.size(), 1U);
  const Sighting& sighting = summary.sightings[0];
  ASSERT_TRUE(sighting.kept);
  EXPECT_EQ(sighting.kept->note, "");
  EXPECT_LE(sighting.kept->values_after, 64);
  EXPECT_LT(sighting.kept->values_after, sighting.kept->values_before);
  EXPECT_EQ(watcher_.told,
            (std::vector<std::string>{"seen " + sighting.signature, "stored " + sighting.signature}));
  EXPECT_NE(WhyOf(sighting.regime), "");

  std::string error;
  const auto c = ReadCase(options.out / sighting.kept->file, &error);
  ASSERT_TRUE(c) << error;
  EXPECT_EQ(c->target, "mutant:plain-logprob");
  EXPECT_EQ(c->recipe, sighting.recipe);
  EXPECT_EQ(c->drawn_by, WhyOf(sighting.regime));
  EXPECT_EQ(c->finding.Signature(), sighting.signature);
  EXPECT_NE(c->finding.arbiter, "");
  EXPECT_EQ(ValueCount(c->problem), sighting.kept->values_after);
  EXPECT_TRUE(std::filesystem::is_empty(options.out / "shrinking"));

  WorkerSpec spec;
  spec.target = c->target;
  spec.program = PLUMB_PROGRAM;
  CaseRunner runner(spec, 120s, &watcher_.interrupt);
  EXPECT_TRUE(FindSignature(runner.RunAndConfirm(RequestFor(c->problem, SeedOf(*c))).result,
                            sighting.signature));
  CampaignOptions again = Options("mutant:plain-logprob", 1, "again");
  again.recipe = sighting.recipe;
  again.stop_after = 1;
  const CampaignSummary one = watcher_.Run(again);
  EXPECT_EQ(one.targets[0].second.cases, 1);
  EXPECT_EQ(Keys(one), Keys(summary));
}

// Fails if a resume counts a case twice, skips one, forgets a finding, or depends on where the
// interrupt fell. The reference is the same campaign without an interrupt.
TEST_F(CampaignTest, InterruptedAndResumedIsTheSameCampaign) {
  const CampaignSummary whole = watcher_.Run(Options("mutant:logits-rounded", 60, "whole"));
  ASSERT_EQ(whole.status, ExitStatus::kFindings) << whole.error;
  ASSERT_GE(whole.sightings.size() + whole.parts.size(), 2U);

  Watcher stopping;
  stopping.interrupt_at_sighting = true;
  const CampaignSummary first = stopping.Run(Options("mutant:logits-rounded", 60, "parts"));
  ASSERT_EQ(first.status, ExitStatus::kInterrupted);
  EXPECT_LT(first.targets[0].second.cases, 60);
  EXPECT_FALSE(first.sightings.at(0).kept);

  const CampaignOptions resume = Resumed("parts");
  Watcher resuming;
  const CampaignSummary second = resuming.Run(resume);
  EXPECT_EQ(second.status, ExitStatus::kFindings) << second.error;
  EXPECT_EQ(second.options.seed, 1U);
  EXPECT_EQ(WithoutTime(second), WithoutTime(whole));
  EXPECT_EQ(Keys(second), Keys(whole));
  for (const Sighting& sighting : second.sightings) {
    ASSERT_TRUE(sighting.kept) << sighting.signature;
    EXPECT_TRUE(std::filesystem::exists(work_ / "parts" / sighting.kept->file));
  }
  // A finished campaign is resumed: nothing is left to do, and nothing is added.
  const CampaignSummary third = resuming.Run(resume);
  EXPECT_EQ(WithoutTime(third), WithoutTime(whole));
}

// Fails if several threads run more cases than asked for, fewer, or other ones. Findings are not shrunk
// here: that would only take time.
TEST_F(CampaignTest, JobsDoNotChangeWhatIsTried) {
  CampaignOptions options = Options("mutant:first-grad-for-all", 24, "one");
  options.shrink_time = 0ms;
  const CampaignSummary one = watcher_.Run(options);
  options.out = work_ / "three";
  options.jobs = 3;
  const CampaignSummary three = watcher_.Run(options);
  EXPECT_GT(one.targets[0].second.arbitrated, 0);
  EXPECT_EQ(WithoutTime(one), WithoutTime(three));
  EXPECT_EQ(Keys(one), Keys(three));
  EXPECT_EQ(one.coverage[0].cells, three.coverage[0].cells);
  EXPECT_EQ(one.yields[0].size(), three.yields[0].size());
}

// Fails if a stored case is skipped, if its failure is no finding, if it cannot be shrunk because it
// has no recipe, or if a corpus may change during a campaign.
TEST_F(CampaignTest, KeptCasesComeFirst) {
  CampaignOptions find = Options("mutant:plain-logprob", 400, "found");
  find.stop_after = 1;
  const CampaignSummary found = watcher_.Run(find);
  ASSERT_EQ(found.sightings.size(), 1U);

  CampaignOptions options = Options("mutant:plain-logprob", 1, "out");
  options.corpus = find.out / "findings";
  const CampaignSummary summary = watcher_.Run(options);
  EXPECT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_EQ(Keys(summary), Keys(found));
  EXPECT_EQ(summary.sightings[0].regime, kCorpusRegime);
  EXPECT_EQ(summary.sightings[0].source, (find.out / found.sightings[0].kept->file).string());
  ASSERT_TRUE(summary.sightings[0].kept);
  EXPECT_TRUE(std::filesystem::exists(options.out / summary.sightings[0].kept->file));
  options.targets = {"host"};
  options.out = work_ / "host";
  EXPECT_EQ(watcher_.Run(options).status, ExitStatus::kClean);

  std::filesystem::remove_all(find.out / "findings");
  EXPECT_EQ(watcher_.Run(Resumed("out")).status, ExitStatus::kUsage);
}

// Fails if a campaign goes on until the disk is full and loses what it then finds.
TEST_F(CampaignTest, ADiskThatIsNearlyFullEndsIt) {
  CampaignOptions options = Options("host", 5, "out");
  options.least_free = int64_t{1} << 62;
  const CampaignSummary summary = watcher_.Run(options);
  EXPECT_EQ(summary.status, ExitStatus::kFault);
  EXPECT_THAT(summary.error, HasSubstr("bytes are free in " + options.out.string()));
}

// Fails if a target that leaks exhausts the machine's memory, or if its end does not say why.
TEST_F(CampaignTest, ALeakEndsItsWorker) {
  const std::string target = work_.Misbehaving("LEAK", "-DALWAYS=1");
  CampaignOptions options = Options(target, 60, "out");
  options.stop_after = 1;
  options.worker_memory = int64_t{512} << 20;
  options.shrink_time = 0ms;
  const CampaignSummary summary = watcher_.Run(options);
  ASSERT_EQ(summary.sightings.size(), 1U) << summary.error;
  EXPECT_THAT(summary.sightings[0].signature, HasSubstr("crash"));
  EXPECT_THAT(summary.sightings[0].finding.what, HasSubstr("out of memory: it held"));
  EXPECT_THAT(summary.sightings[0].finding.what, HasSubstr("512 are allowed"));
}

// Fails if a campaign ends with its first crash, if a crash is not shrunk, or if its stored case does
// not crash.
TEST_F(CampaignTest, ACrashIsShrunkAndTheCampaignGoesOn) {
  const std::string target = work_.Misbehaving("CRASH");
  const CampaignSummary summary = watcher_.Run(Options(target, 30, "out"));
  ASSERT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  const Tally& tally = summary.targets[0].second;
  EXPECT_EQ(tally.cases, 30);
  EXPECT_GE(tally.fail, 2);
  EXPECT_GE(tally.skipped, 2);
  EXPECT_EQ(tally.fail + tally.skipped, 30);
  EXPECT_EQ(tally.skip_reasons.begin()->first, "the target: declined");
  ASSERT_EQ(summary.sightings.size(), 1U);
  EXPECT_EQ(summary.sightings[0].signature, "crash");
  EXPECT_EQ(summary.sightings[0].more.size(), std::min<size_t>(3, static_cast<size_t>(tally.fail) - 1));
  std::string error;
  const auto c = ReadCase(work_ / "out" / summary.sightings[0].kept->file, &error);
  ASSERT_TRUE(c) << error;
  EXPECT_EQ(c->problem.vocab() % 4, 1);
  EXPECT_LE(ValueCount(c->problem), 64);
}

// Fails if a hang is pursued with the campaign's whole deadline for each candidate, or is not stored.
TEST_F(CampaignTest, AHangIsStored) {
  const std::string target = work_.Misbehaving("HANG");
  CampaignOptions options = Options(target, 1, "out");
  options.recipe = "v1 regime=ragged-tail seed=1 n=2 v=5 h=3";
  options.case_timeout = 200ms;
  options.shrink_time = 1s;
  const CampaignSummary summary = watcher_.Run(options);
  ASSERT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_EQ(summary.sightings.size(), 1U);
  EXPECT_EQ(summary.sightings[0].signature, "hang");
  EXPECT_TRUE(std::filesystem::exists(options.out / summary.sightings[0].kept->file));
}

// Fails if a death that did not happen again is merged with those that do, or is stored unmarked.
TEST_F(CampaignTest, ADeathThatIsNotReproducedIsAFindingOfItsOwn) {
  const std::string target = work_.Misbehaving("CRASH_ONCE");
  CampaignOptions options = Options(target, 60, "out");
  options.stop_after = 1;
  const CampaignSummary summary = watcher_.Run(options);
  ASSERT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_EQ(summary.sightings.size(), 1U);
  EXPECT_EQ(summary.sightings[0].signature, "crash (once)");
  ASSERT_TRUE(summary.sightings[0].kept);
  EXPECT_THAT(summary.sightings[0].kept->note, HasSubstr(" of 5"));
}

// Fails if a refusal comes after something was written into the folder, or without its reason.
TEST_F(CampaignTest, WhatCannotBeDoneIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](const CampaignOptions& options, ExitStatus status, const std::string& word) {
    const CampaignSummary summary = watcher_.Run(options);
    EXPECT_EQ(summary.status, status);
    EXPECT_THAT(summary.error, HasSubstr(word));
    EXPECT_FALSE(std::filesystem::exists(work_ / "out"));
  };
  refused(Options("mutant:nope", 5, "out"), ExitStatus::kUnavailable, "nope");
  CampaignOptions options = Options("host", 5, "out");
  options.regime = "raged-tail";
  refused(options, ExitStatus::kUsage, "ragged-tail");
  options = Options("host", 5, "out");
  options.recipe = "v1 n=two";
  refused(options, ExitStatus::kUsage, "two");
  options = Options("host", 5, "out");
  options.targets = {"host", "host"};
  refused(options, ExitStatus::kUsage, "twice");
  options = Options("host", 5, "out");
  options.targets.clear();
  refused(options, ExitStatus::kUsage, "target");
  options.resume = true;
  refused(options, ExitStatus::kUsage, "holds no campaign");

  watcher_.Run(Options("host", 1, "taken"));
  EXPECT_EQ(watcher_.Run(Options("host", 1, "taken")).status, ExitStatus::kUsage);
}

class SlowCampaignTest : public CampaignTest {};

// Fails if the guided half of the search depends on chance: on which job is faster, or where an
// interrupt falls.
TEST_F(SlowCampaignTest, TheSearchIsTheSameInPartsAndWithJobs) {
  const int64_t cases = 3 * kGeneration + 40;
  const CampaignSummary one = watcher_.Run(Options("host", cases, "one"));
  ASSERT_EQ(one.status, ExitStatus::kClean) << one.error;
  CampaignOptions options = Options("host", 2 * kGeneration + 100, "parts");
  options.jobs = 3;
  watcher_.Run(options);
  CampaignOptions resume = Resumed("parts");
  resume.jobs = 2;
  resume.budget = Budget{.time = 0ms, .cases = cases};
  const CampaignSummary parts = watcher_.Run(resume);
  EXPECT_EQ(WithoutTime(parts), WithoutTime(one));
  EXPECT_EQ(parts.coverage[0].cells, one.coverage[0].cells);
  EXPECT_LT(parts.coverage[0].blind, parts.coverage[0].cases - 200);  // there were guided cases
  ASSERT_EQ(parts.yields[0].size(), one.yields[0].size());
  for (const auto& [regime, yield] : one.yields[0]) {
    const RegimeYield& mine = parts.yields[0].at(regime);
    EXPECT_EQ(mine.cases, yield.cases) << regime;
    EXPECT_EQ(mine.new_cells, yield.new_cells) << regime;
    EXPECT_EQ(mine.tightness, yield.tightness) << regime;
  }
}

}  // namespace
}  // namespace plumbline::fuzz
