// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/second_opinion.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fuzz/examine/placement.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;
using oracle::Watched;
using ::testing::HasSubstr;

// The results of `host` on 3 rows, and the judge's verdicts on the elements that are watched.
class SecondOpinionTest : public ::testing::Test {
 protected:
  SecondOpinionTest() : placement_(Expand({.n = 3, .v = 5, .h = 4, .entropy_grads = Grads::kRandom})) {
    std::string error;
    target_ = LoadTarget("host", &error);
    EXPECT_TRUE(target_) << error;
    placement_.Poison(0);
    EXPECT_EQ(target_->Run(placement_.problem(), placement_.results()).status, RunStatus::kOk);
  }
  std::vector<Watched> Judged(std::vector<Watched> elements) {
    oracle::JudgeProblem(placement_.problem(), placement_.results(), target_->description().contract,
                         {}, &elements);
    return elements;
  }
  std::vector<Watched> Spread(uint64_t seed) {
    return SpreadElements(placement_.problem(), placement_.results(), seed);
  }

  Placement placement_;
  std::unique_ptr<Target> target_;
};

// Fails for an output or a row that is never asked about, an element outside its tensor, a choice that
// is not a function of the seed.
TEST_F(SecondOpinionTest, SpreadElementsReachEverything) {
  std::set<Output> outputs;
  std::set<int64_t> hidden_rows, hidden_columns, weight_rows;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<Watched> elements = Spread(seed), again = Spread(seed);
    ASSERT_EQ(elements.size(), again.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      const Watched& w = elements[i];
      EXPECT_EQ(w.output, again[i].output);
      EXPECT_EQ(w.row, again[i].row);
      EXPECT_EQ(w.column, again[i].column);
      outputs.insert(w.output);
      if (w.output == Output::kGradHidden) hidden_rows.insert(w.row), hidden_columns.insert(w.column);
      if (w.output == Output::kGradWeight) weight_rows.insert(w.row);
    }
  }
  EXPECT_EQ(outputs, (std::set{Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden,
                               Output::kGradWeight}));
  EXPECT_EQ(hidden_rows, (std::set<int64_t>{0, 1, 2}));
  EXPECT_EQ(hidden_columns, (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(weight_rows, (std::set<int64_t>{0, 1, 2, 3, 4}));
}

// Fails if the estimate that decides whether a case is asked about is less than the true cost, beyond
// the few products of a gradient. Fails for rows that are priced as one.
TEST_F(SecondOpinionTest, SpreadCostCoversWhatIsAsked) {
  bool one = false, whole = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    oracle::Arbiter arbiter(placement_.problem());
    double cost = 0;
    for (const Watched& w : Spread(seed)) {
      cost += arbiter.Cost(w.output, w.row, w.column);
      arbiter.Evaluate(w.output, w.row, w.column);
    }
    const double estimate = SpreadCost(seed, 3, 5, 4);
    EXPECT_LE(cost, 1.3 * estimate) << seed;
    EXPECT_GE(cost, 0.9 * estimate) << seed;
    one = one || estimate == SpreadCost(seed, 1, 5, 4);
    whole = whole || estimate == 3 * SpreadCost(seed, 1, 5, 4);
  }
  EXPECT_TRUE(one);
  EXPECT_TRUE(whole);
}

TEST_F(SecondOpinionTest, AgreesOnAPassingCaseAndCounts) {
  SecondOpinion opinion(placement_.problem(), 1e7);
  const std::vector<Watched> elements = Judged(Spread(3));
  EXPECT_EQ(opinion.AskAll(elements), "");
  EXPECT_EQ(opinion.asked(), static_cast<int64_t>(elements.size()));
  EXPECT_GT(opinion.asked(), 0);
}

// Fails for an agreement that is not checked: a reference off by more than its own radius is a fault,
// whether or not the target's value is near it.
TEST_F(SecondOpinionTest, ADisagreementNamesTheElement) {
  std::vector<Watched> elements = Judged({{Output::kGradWeight, 4, 2, {}, 0}});
  ASSERT_EQ(elements[0].expected.expect, oracle::Expect::kFinite);
  elements[0].expected.value += 3 * elements[0].expected.radius;
  SecondOpinion opinion(placement_.problem(), 1e7);
  EXPECT_THAT(opinion.AskAll(elements), HasSubstr("grad_weight[4, 2]: reference "));
}

// Fails for an arbiter that is asked at any cost, and if it is not said why it was not.
TEST_F(SecondOpinionTest, WhatCostsTooMuchIsNotAskedNorCounted) {
  SecondOpinion opinion(placement_.problem(), 10);
  std::vector<Watched> elements = Judged({{Output::kLse, 1, 0, {}, 0}});
  elements[0].expected.value += 1;
  EXPECT_EQ(opinion.AskAll(elements), "");
  EXPECT_EQ(opinion.asked(), 0);
  std::string digits, silent;
  EXPECT_EQ(opinion.Ask(elements[0], /*failed=*/true, &digits, &silent), "");
  EXPECT_EQ(digits, "");
  EXPECT_EQ(silent, "it would take about 1 s");
}

// Fails if an element that was asked about is said not to have been.
TEST_F(SecondOpinionTest, WhatIsAskedHasDigitsAndNoExcuse) {
  SecondOpinion opinion(placement_.problem(), 1e7);
  std::string digits, silent;
  opinion.Ask(Judged({{Output::kLse, 1, 0, {}, 0}})[0], /*failed=*/false, &digits, &silent);
  EXPECT_NE(digits, "");
  EXPECT_EQ(silent, "");
}

}  // namespace
}  // namespace plumbline::fuzz
