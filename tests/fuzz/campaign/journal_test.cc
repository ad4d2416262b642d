// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/journal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string>

#include "fuzz/campaign/campaign_state.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;

std::string Slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

CampaignOptions Options() {
  CampaignOptions options;
  options.targets = {"host", "plugin:./a b.so"};
  options.seed = 0xFFFF'FFFF'FFFF'FFFE;  // beyond int64
  options.regime = "ragged-tail";
  options.budget = Budget{.time = 0ms, .cases = 7};
  options.stop_after = 3;
  options.case_timeout = 1500ms;
  options.started = "20250131T235959Z";
  Inference inference;
  inference.shortcuts = {{.what = "logits rounded to bf16",
                          .declares = "logits=bf16",
                          .cases = 42,
                          .output = "lse",
                          .error = 0x1p-6,
                          .recipe = "v1 seed=2"}};
  inference.contract = "tensor-core-fp32,logits=bf16";
  inference.cases = 192;
  inference.failing = 43;
  inference.unexplained = 1;
  options.inferred = {inference};
  return options;
}

CaseRecord Failing() {
  CaseRecord record;
  record.verdict = oracle::Verdict::kFail;
  record.signatures = {"bound:logprob", "sign:entropy"};
  record.tightness = {{"logprob", std::numeric_limits<double>::infinity()}, {"lse", 0x1.8p-7}};
  record.by_output = {{"logprob", {4, 2, 0, 0}}, {"lse", {1, 0, 1, 0}}, {"loss", {0, 0, 0, 4}}};
  record.honest = {{"lse", 0.75}, {"grad_weight", std::numeric_limits<double>::infinity()}};
  record.case_class = {.name = "exact", .aim = "sharp", .dtype = "bf16", .grads = "fp32"};
  record.arbitrated = 13;
  record.regime = "exact-dot";
  record.us = 1234;
  return record;
}

Sighting Seen(const std::string& signature, int64_t item) {
  Sighting sighting;
  sighting.target = "host";
  sighting.signature = signature;
  sighting.item = item;
  sighting.recipe = "v1 regime=ragged-tail seed=7";
  sighting.regime = "ragged-tail";
  sighting.seconds = 1.25;
  sighting.finding.output = "logprob";
  sighting.finding.row = 3;
  sighting.finding.got = -0.1;
  sighting.finding.what = "logprob[3] is off";
  return sighting;
}

class JournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<Journal> Create() {
    auto journal = Journal::Create(work_.path(), Options(), &error_);
    EXPECT_TRUE(journal) << error_;
    return journal;
  }
  // Opens the journal again and reads it into `state_`. Null, with `error_`, if that is impossible.
  std::unique_ptr<Journal> Open(const std::function<void(DoneItem)>& take = [](const DoneItem&) {}) {
    std::unique_ptr<Journal> journal = Journal::Open(work_.path(), &error_);
    const auto reader = journal ? JournalReader::Open(work_.path(), &error_) : nullptr;
    if (!reader) return nullptr;
    while (std::optional<DoneItem> done = reader->Next(&error_)) take(*std::move(done));
    if (!error_.empty()) return nullptr;
    state_ = reader->Finish();
    return journal->Continue(*reader, state_, &error_) ? std::move(journal) : nullptr;
  }
  void ReadAll() {
    std::optional<JournalState> read = ReadJournal(work_.path(), &error_);
    ASSERT_TRUE(read) << error_;
    state_ = *std::move(read);
  }
  std::filesystem::path File() const { return work_ / kJournalName; }

  testing::Workplace work_;
  std::string error_;
  JournalState state_;
};

// Fails if a field is written and not read, or is read as another; if a seed passes through a signed or
// floating number; or if an infinity is lost in JSON.
TEST_F(JournalTest, WhatIsWrittenComesBack) {
  StoredFinding kept;
  kept.file = "findings/x.safetensors";
  kept.finding = Seen("bound:logprob", 2).finding;
  kept.values_before = 900;
  kept.values_after = 12;
  kept.tried = 40;
  kept.accepted = 9;
  kept.complete = true;
  kept.seconds = 0.5;
  kept.note = "a note";
  {
    auto journal = Create();
    journal->Start(0);
    journal->Done(0, 120ms, CaseRecord{});
    journal->Start(1);
    journal->Start(2);
    journal->Sighted(Seen("bound:logprob", 2));
    journal->Sighted(Seen("sign:entropy", 2));
    journal->Done(2, 340ms, Failing());
    journal->Stored({"host", "bound:logprob"}, kept, {{"sign:entropy", "bound:logprob"}});
    journal->More({"host", "bound:logprob"}, "v1 seed=8");
    journal->Fault("reference and arbiter disagree");
    journal->Clock(400ms);
    EXPECT_EQ(journal->Failure(), "");
  }
  ReadAll();
  EXPECT_EQ(state_.options.targets, Options().targets);
  EXPECT_EQ(state_.options.seed, Options().seed);
  EXPECT_EQ(state_.options.regime, "ragged-tail");
  EXPECT_EQ(state_.options.budget, Options().budget);
  EXPECT_EQ(state_.options.stop_after, 3);
  EXPECT_EQ(state_.options.case_timeout, 1500ms);
  EXPECT_EQ(state_.options.started, "20250131T235959Z");
  ASSERT_EQ(state_.options.inferred.size(), 1U);
  EXPECT_EQ(ToJson(state_.options.inferred[0]), ToJson(Options().inferred[0]));
  EXPECT_TRUE(state_.Done(0));
  EXPECT_FALSE(state_.Done(1));
  EXPECT_TRUE(state_.Done(2));
  EXPECT_FALSE(state_.Done(1'000'000));
  EXPECT_EQ(state_.unfinished, std::vector<int64_t>{1});
  EXPECT_EQ(state_.elapsed, 400ms);
  EXPECT_EQ(state_.faults, 1);
  EXPECT_EQ(state_.note, "");

  const Tally& tally = state_.tallies.at("host");
  EXPECT_EQ(tally.cases, 2);
  EXPECT_EQ(tally.pass, 1);
  EXPECT_EQ(tally.fail, 1);
  EXPECT_EQ(tally.elements, (std::array<int64_t, 4>{5, 2, 1, 4}));
  EXPECT_EQ(tally.tightness.at("logprob"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(tally.tightness.at("lse"), 0x1.8p-7);
  EXPECT_EQ(tally.signatures.at("sign:entropy"), 1);
  EXPECT_EQ(tally.arbitrated, 13);

  ASSERT_EQ(state_.sightings.size(), 2U);
  const Sighting& first = state_.sightings.at({"host", "bound:logprob"});
  EXPECT_EQ(first.item, 2);
  EXPECT_EQ(first.recipe, "v1 regime=ragged-tail seed=7");
  EXPECT_EQ(first.finding.what, "logprob[3] is off");
  EXPECT_EQ(first.finding.got, -0.1);
  EXPECT_TRUE(first.reproduced);
  EXPECT_EQ(first.more, std::vector<std::string>{"v1 seed=8"});
  ASSERT_TRUE(first.kept);
  EXPECT_EQ(ToJson(*first.kept), ToJson(kept));
  EXPECT_FALSE(state_.sightings.at({"host", "sign:entropy"}).kept);
  EXPECT_EQ(state_.sightings.at({"host", "sign:entropy"}).part_of, "bound:logprob");
  EXPECT_EQ(state_.reach.at("host").Of("sign:entropy").showed, 1);
}

// Fails if a torn line makes the whole campaign unreadable, or if the next line is appended to it. The
// cut runs over every byte of the last line.
TEST_F(JournalTest, ATornLastLineIsDroppedAndCutOff) {
  {
    auto journal = Create();
    journal->Done(0, 10ms, CaseRecord{});
    journal->Start(2);
    journal->Done(2, 20ms, CaseRecord{});
  }
  const std::string whole = Slurp(File());
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t size = last + 1; size < whole.size(); ++size) {
    std::ofstream(File(), std::ios::trunc) << whole.substr(0, size);
    {
      auto journal = Open();
      ASSERT_TRUE(journal) << error_;
      EXPECT_TRUE(state_.Done(0));
      EXPECT_FALSE(state_.Done(2)) << size;
      EXPECT_NE(state_.note.find("torn"), std::string::npos);
      journal->Done(2, 30ms, CaseRecord{});
    }
    ReadAll();
    EXPECT_EQ(state_.note, "");
    EXPECT_EQ(state_.tallies.at("host").cases, 2);
    EXPECT_EQ(state_.tallies.at("host").fail, 0);
  }
}

// Fails if damage in the middle is taken for the end: the cases after it would be forgotten.
TEST_F(JournalTest, DamageElsewhereIsRefusedAndNamesTheLine) {
  {
    auto journal = Create();
    for (int i = 0; i < 3; ++i) journal->Done(i, 10ms, CaseRecord{});
  }
  const std::string whole = Slurp(File());
  std::string damaged = whole;
  damaged[whole.find('\n') + 3] = '}';
  std::ofstream(File(), std::ios::trunc) << damaged;
  EXPECT_FALSE(Open());
  EXPECT_NE(error_.find("line 2"), std::string::npos) << error_;

  for (const std::string& text :
       {std::string(), std::string("{\"journal\":1}\n"), whole.substr(0, 40)}) {
    std::ofstream(File(), std::ios::trunc) << text;
    EXPECT_FALSE(Open()) << text;
  }
}

// Fails if a campaign goes on with capabilities that cannot be read as if its targets could do all.
TEST_F(JournalTest, CapabilitiesThatAreNoneAreRefused) {
  CampaignOptions options = Options();
  options.capabilities = {"{}", "{\"vocab_multiple\":8}"};
  ASSERT_TRUE(Journal::Create(work_.path(), options, &error_)) << error_;
  ReadAll();
  EXPECT_EQ(state_.options.capabilities, options.capabilities);
  std::string text = Slurp(File());
  const size_t at = text.find("vocab_multiple");
  ASSERT_NE(at, text.npos);
  std::ofstream(File(), std::ios::trunc) << text.replace(at, 5, "Vocab");
  EXPECT_FALSE(Open());
  EXPECT_NE(error_.find("Vocab_multiple"), std::string::npos) << error_;
}

// Fails if a campaign is written over another, or if two supervisors share one journal.
TEST_F(JournalTest, AFolderHoldsOneCampaignAndOneWriter) {
  auto journal = Create();
  EXPECT_FALSE(Journal::Create(work_.path(), Options(), &error_));
  EXPECT_NE(error_.find("--resume"), std::string::npos) << error_;
  EXPECT_FALSE(Open());
  EXPECT_NE(error_.find("in use"), std::string::npos) << error_;
  journal.reset();
  EXPECT_TRUE(Open()) << error_;
}

// Fails if a case with two "done" lines is counted twice.
TEST_F(JournalTest, AnItemCountsOnce) {
  {
    auto journal = Create();
    for (int i = 0; i < 2; ++i) journal->Done(4, 10ms, Failing());
  }
  ReadAll();
  EXPECT_EQ(state_.tallies.at("host").cases, 1);
}

Judged FailedWith(const std::string& output) {
  Judged judged;
  judged.result.verdict = oracle::Verdict::kFail;
  Finding finding;
  finding.output = output;
  judged.result.findings = {finding, finding};
  return judged;
}

class CampaignStateTest : public JournalTest {
 protected:
  // Opens the state again: begins the journal, or resumes from it.
  std::unique_ptr<CampaignState> Reopen() {
    plan_ = std::make_unique<Plan>(options_, std::vector<std::filesystem::path>{});
    search_ = std::make_unique<Search>(*plan_, RegimesOf(options_),
                                       std::vector<TargetDraws>(options_.targets.size()));
    state_ = {};
    auto journal = !std::filesystem::exists(File()) ? Create() : Open([this](DoneItem done) {
      search_->Take(done.item, std::move(done.record), done.elapsed);
    });
    return std::make_unique<CampaignState>(options_, *plan_, search_.get(), std::move(state_),
                                           std::move(journal));
  }
  static std::optional<Sighting> NextPending(CampaignState* state) {
    return state->NextPending([](int64_t) { return true; }, nullptr);
  }
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Search> search_;
  bool wait_ = false;
  CampaignOptions options_ = [] {
    CampaignOptions options = Options();
    options.stop_after = 0;
    return options;
  }();
};

// Fails if an index is skipped or drawn twice over a resume, if targets see different recipes, or if
// each run counts its budget from zero.
TEST_F(CampaignStateTest, RunsShareOneRowOfItems) {
  std::vector<std::pair<size_t, std::string>> all;
  {
    auto campaign_state = Reopen();
    while (const auto item = campaign_state->NextItem(&wait_))
      all.emplace_back(item->target, item->recipe);
  }
  ASSERT_EQ(all.size(), 14U);  // 7 cases on each of 2 targets
  for (size_t i = 0; i < all.size(); i += 2) {
    EXPECT_EQ(all[i].first, 0U);
    EXPECT_EQ(all[i + 1].first, 1U);
    EXPECT_EQ(all[i].second, all[i + 1].second);
  }
  EXPECT_NE(all[0].second, all[2].second);
  {
    auto campaign_state = Reopen();
    for (int i = 0; i < 5; ++i) {
      const auto item = campaign_state->NextItem(&wait_);
      campaign_state->Start(*item);
      if (i != 1)
        campaign_state->Record(*item, Judged{}, 0.001);  // item 1 is in flight when the run ends
    }
  }
  auto campaign_state = Reopen();
  std::vector<int64_t> rest;
  while (const auto item = campaign_state->NextItem(&wait_)) rest.push_back(item->number);
  EXPECT_EQ(rest, (std::vector<int64_t>{1, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
}

// Fails if a finding is lost between its sighting and its storing, is pursued twice, or is counted as
// new again.
TEST_F(CampaignStateTest, ASightingIsPursuedOnceAndSurvivesAResume) {
  Item item;
  item.recipe = "v1 seed=1";
  {
    auto campaign_state = Reopen();
    EXPECT_EQ(campaign_state->Record(item, FailedWith("logprob"), 0.001).size(), 1U);
    item.number = 2;
    item.recipe = "v1 seed=2";
    EXPECT_EQ(campaign_state->Record(item, FailedWith("logprob"), 0.001).size(), 0U);
    EXPECT_EQ(campaign_state->Tallies()[0].second.signatures.at("bound:logprob"), 2);
  }
  {
    auto campaign_state = Reopen();
    const auto pending = NextPending(campaign_state.get());
    ASSERT_TRUE(pending);
    EXPECT_EQ(pending->recipe, "v1 seed=1");
    EXPECT_EQ(pending->more, std::vector<std::string>{"v1 seed=2"});
    EXPECT_FALSE(NextPending(campaign_state.get()));
    StoredFinding kept;
    kept.file = "findings/a";
    EXPECT_EQ(campaign_state->Store(*pending, kept).kept->file, "findings/a");
  }
  auto campaign_state = Reopen();
  EXPECT_FALSE(NextPending(campaign_state.get()));
  ASSERT_EQ(campaign_state->AllSightings().size(), 1U);
  EXPECT_EQ(campaign_state->AllSightings()[0].kept->file, "findings/a");
}

// Fails if a case counts as done before its findings are written: a campaign killed between the two
// would never see them again.
TEST_F(CampaignStateTest, WhatACaseShowedIsWrittenBeforeItsEnd) {
  Reopen()->Record(Item{}, FailedWith("logprob"), 0.001);
  const std::string journal = Slurp(File());
  const size_t sighting = journal.find("\"sighting\""), done = journal.find("\"done\"");
  ASSERT_NE(sighting, std::string::npos);
  ASSERT_NE(done, std::string::npos);
  EXPECT_LT(sighting, done);
}

// Fails if a stop comes a case late, or if findings beyond the limit are shrunk.
TEST_F(CampaignStateTest, StopAfterCountsDistinctFindings) {
  options_.stop_after = 2;
  auto campaign_state = Reopen();
  Item item;
  campaign_state->Record(item, FailedWith("logprob"), 0.001);
  EXPECT_TRUE(campaign_state->NextItem(&wait_));
  item.number = 1;
  Judged many = FailedWith("lse");
  many.result.findings.push_back(FailedWith("entropy").result.findings[0]);
  EXPECT_EQ(campaign_state->Record(item, many, 0.001).size(), 2U);
  EXPECT_EQ(campaign_state->Findings().wrong, 2);
  EXPECT_FALSE(campaign_state->NextItem(&wait_));
}

// Fails if a case on which reference and arbiter disagree is reported as the target's fault.
TEST_F(CampaignStateTest, NothingIsAFindingWhereTheOracleContradictsItself) {
  auto campaign_state = Reopen();
  Judged judged = FailedWith("lse");
  judged.result.harness_fault = "disagree";
  EXPECT_TRUE(campaign_state->Record(Item{}, judged, 0.001).empty());
  EXPECT_EQ(campaign_state->Tallies()[0].second.faults, 1);
  EXPECT_EQ(campaign_state->Tallies()[0].second.fail, 0);
}

}  // namespace
}  // namespace plumbline::fuzz
