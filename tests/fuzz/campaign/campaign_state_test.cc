// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign_state.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "fuzz/base/units.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/search.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

// Fails if an item that a job hands back before it shrinks a sighting is lost, comes twice, or waits
// for that job: the other jobs wait for its generation.
TEST(CampaignState, AnItemThatIsPutBackIsTheNextOne) {
  testing::Workplace work;
  CampaignOptions options;
  options.targets = {"host"};
  std::string error;
  options.budget = ParseBudget("3cases", &error);
  ASSERT_TRUE(options.budget) << error;
  options.out = work.path();
  auto journal = Journal::Create(options.out, options, &error);
  ASSERT_TRUE(journal) << error;
  const Plan plan(options, {});
  Search search(plan, RegimesOf(options), std::vector<TargetDraws>(1));
  CampaignState state(options, plan, &search, {}, std::move(journal));
  bool wait = false;
  const std::optional<Item> first = state.NextItem(&wait), second = state.NextItem(&wait);
  ASSERT_TRUE(first && second);
  state.PutBack(*first);
  const std::optional<Item> again = state.NextItem(&wait), third = state.NextItem(&wait);
  ASSERT_TRUE(again && third);
  EXPECT_EQ(again->number, first->number);
  EXPECT_EQ(again->recipe, first->recipe);
  EXPECT_EQ(third->number, second->number + 1);
  state.PutBack(*third);  // the budget of cases counts it
  EXPECT_TRUE(state.NextItem(&wait));
  EXPECT_FALSE(state.NextItem(&wait));
}

// One case shows four signatures. Fails if more than the leader is pursued at first, if what its small
// problem does not show is dropped, pursued with the rest of it or forgotten by a resume, or if a
// signature that joins a stored finding counts as one of its own.
TEST(CampaignState, FindingsAreGroupedAndSurviveAResume) {
  testing::Workplace work;
  CampaignOptions options;
  options.targets = {"host"};
  std::string error;
  options.budget = ParseBudget("9cases", &error);
  options.out = work.path();
  const Plan plan(options, {});
  const auto next = [](CampaignState* state) {
    const auto pending = state->NextPending([](int64_t) { return true; }, nullptr);
    return pending ? pending->signature : "";
  };
  const auto kept = [](std::vector<std::string> also) {
    StoredFinding stored;
    stored.cause.also = std::move(also);
    stored.cause.rules = stored.cause.any_rules = {"V:any"};
    return stored;
  };
  const auto failed_with = [](const std::vector<std::string>& outputs, FindingKind kind) {
    Judged judged;
    judged.result.verdict = oracle::Verdict::kFail;
    for (const std::string& output : outputs) {
      judged.result.findings.emplace_back().kind = kind;
      judged.result.findings.back().output = output;
    }
    return judged;
  };
  const auto sighting = [](const std::string& signature) {
    Sighting of;
    of.target = "host";
    of.signature = signature;
    return of;
  };
  Search search(plan, RegimesOf(options), std::vector<TargetDraws>(1));
  {
    auto journal = Journal::Create(options.out, options, &error);
    ASSERT_TRUE(journal) << error;
    CampaignState state(options, plan, &search, {}, std::move(journal));
    const Judged wrong = failed_with({"logprob", "lse", "entropy", "grad_weight"}, FindingKind::kBound);
    EXPECT_EQ(state.Record(Item{}, wrong, 0).size(), 4U);
    EXPECT_EQ(state.Findings().wrong, 1);
    EXPECT_EQ(next(&state), "bound:lse");
    EXPECT_EQ(next(&state), "");
    EXPECT_TRUE(state.Pursuing());
    state.Store(sighting("bound:lse"), kept({"bound:lse", "bound:logprob"}));
    EXPECT_EQ(state.Findings().wrong, 2);
  }
  const auto read = ReadJournal(options.out, &error);
  ASSERT_TRUE(read) << error;
  CampaignState state(options, plan, &search, *read, Journal::Open(options.out, &error));
  EXPECT_EQ(state.Findings().wrong, 2);
  EXPECT_EQ(next(&state), "bound:entropy");
  EXPECT_EQ(next(&state), "");
  state.Store(sighting("bound:entropy"), kept({"bound:entropy", "bound:grad_weight"}));
  Item later;
  later.number = 5;
  EXPECT_EQ(state.Record(later, failed_with({"logprob"}, FindingKind::kSign), 0).size(), 1U);
  EXPECT_EQ(state.Findings().wrong, 3);
  EXPECT_EQ(next(&state), "sign:logprob");
  EXPECT_EQ(state.Store(sighting("sign:logprob"), kept({"bound:logprob", "bound:lse"})).part_of, "bound:lse");
  EXPECT_EQ(state.Findings().wrong, 2);
  EXPECT_EQ(state.AllSightings().size(), 5U);
  // Fails if what is suspect counts as wrong.
  later.number = 6;
  Judged suspect = failed_with({"entropy"}, FindingKind::kSign);
  suspect.result.verdict = oracle::Verdict::kSuspect;
  suspect.result.findings.front().suspect = true;
  EXPECT_EQ(state.Record(later, suspect, 0).size(), 1U);
  EXPECT_EQ(state.Findings().suspect, 1);
  EXPECT_EQ(state.Findings().wrong, 2);
  EXPECT_EQ(next(&state), "suspect-sign:entropy");
  state.Store(sighting("suspect-sign:entropy"), kept({"suspect-sign:entropy"}));
  EXPECT_FALSE(state.Pursuing());
}

}  // namespace
}  // namespace plumbline::fuzz
