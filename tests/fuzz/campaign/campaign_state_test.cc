// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign_state.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "fuzz/base/units.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/search.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

// Fails if an item that a job hands back before it shrinks a sighting is lost, comes twice, or waits for
// that job: the other jobs wait for its generation.
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
  Search search(plan, RegimesOf(options), 1);
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

}  // namespace
}  // namespace plumbline::fuzz
