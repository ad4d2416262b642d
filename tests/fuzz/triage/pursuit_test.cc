// SPDX-License-Identifier: Apache-2.0
//
// Tests of the way from a failing problem to a stored case. The built program is the worker.

#include "fuzz/triage/pursuit.h"
#include "fuzz/recipe/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "fuzz/recipe/recipe.h"
#include "fuzz/triage/replay.h"
#include "fuzz/triage/shrink/order.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// These limits are reached only on a machine on which nothing works.
PursuitOptions Unhurried() {
  PursuitOptions options;
  options.shrink_time = options.explain_time = std::chrono::minutes(10);
  return options;
}

MATCHER_P(HasText, text, "") { return arg.as_string()->find(text) != std::string::npos; }

class Pursuits : public ::testing::Test {
 protected:
  CaseRunner Runner(const std::string& target) const {
    WorkerSpec spec;
    spec.target = target;
    spec.program = PLUMB_PROGRAM;
    return {spec, milliseconds(120'000), &interrupt_};
  }

  // Returns the first finding of the recipe's problem.
  FailingProblem Failing(const std::string& line, CaseRunner* runner) const {
    Recipe recipe;
    std::string error;
    EXPECT_TRUE(Parse(line, &recipe, &error)) << error;
    FailingProblem start;
    start.problem = Expand(recipe);
    start.recipe = line;
    start.seed = 7;
    for (int i = 0; i < 10 && start.finding.what.empty(); ++i) {
      const Judged judged = runner->RunAndConfirm(RequestFor(start.problem, start.seed));
      if (!judged.result.findings.empty()) start.finding = judged.result.findings.front();
    }
    EXPECT_FALSE(start.finding.what.empty());
    return start;
  }

  static std::string TextOf(const Json& json, std::string_view key) {
    const Json* value = json.Find(key);
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : "";
  }

  fuzz::testing::Workplace work_;
  std::atomic<bool> interrupt_{false};
};

// Fails if one run decides about a candidate (small problems are then lost by chance, or the finding is
// given up at the first pass), or if the file does not say how often it fails.
TEST_F(Pursuits, WhatFailsSevenTimesInTenIsShrunkByMajority) {
  CaseRunner runner = Runner(work_.Plugin("fickle.c", "sometimes", "-DSOMETIMES"));
  const FailingProblem start = Failing("v1 seed=1 n=6 v=57 h=20", &runner);
  const Pursued pursued = Pursue(start, &runner, Unhurried());
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_EQ(pursued.stored.finding.Signature(), "status:failed");
  EXPECT_LE(ValueCount(pursued.stored.problem), 12);
  EXPECT_EQ(pursued.stored.problem.vocab() % 4, 1);
  EXPECT_THAT(pursued.kept.note, ::testing::MatchesRegex("fails [34] of 5"));
  EXPECT_THAT(pursued.stored.finding.what, ::testing::EndsWith(pursued.kept.note));
  EXPECT_EQ(TextOf(pursued.stored.extra, "repeats"), pursued.kept.note);
}

// Fails if a candidate that fails in another way is taken as a step, or is forgotten.
TEST_F(Pursuits, ACandidateThatFailsInAnotherWayIsKeptApart) {
  CaseRunner runner = Runner(work_.Plugin("fickle.c", "slips", ""));
  const FailingProblem start = Failing("v1 seed=1 n=2 v=37 h=3", &runner);
  PursuitOptions options = Unhurried();
  options.explain_time = milliseconds(0);
  const Pursued pursued = Pursue(start, &runner, options);
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_EQ(pursued.stored.finding.Signature(), "status:failed");
  EXPECT_EQ(pursued.stored.problem.vocab(), 9);
  ASSERT_EQ(pursued.other_findings.size(), 1u);
  EXPECT_EQ(pursued.other_findings[0].finding.Signature(), "crash");
  EXPECT_THAT(pursued.other_findings[0].problem.vocab(), ::testing::AnyOf(4, 8));
  EXPECT_THAT(pursued.other_findings[0].drawn_by, HasSubstr("status"));
  EXPECT_EQ(pursued.other_findings[0].recipe, "");
}

// Fails if a step of shrinking may turn a failure into one of another cause.
TEST_F(Pursuits, AFailureStaysWhatItIs) {
  CaseRunner runner = Runner(work_.Plugin("fickle.c", "words", "-DTWO_WORDS"));
  const FailingProblem start = Failing("v1 seed=1 n=2 v=37 h=3", &runner);
  PursuitOptions options = Unhurried();
  options.explain_time = milliseconds(0);
  const Pursued pursued = Pursue(start, &runner, options);
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_EQ(pursued.stored.finding.Signature(), "status:Large@here");
  EXPECT_EQ(pursued.stored.problem.vocab(), 9);
  ASSERT_EQ(pursued.other_findings.size(), 1u);
  EXPECT_EQ(pursued.other_findings[0].finding.Signature(), "status:Small@there");
  Case stored = pursued.stored;
  EXPECT_EQ(ReplayCase(stored, &runner).what, Replayed::kFails);
  stored.finding.failure.clear();  // as before failures were told apart
  EXPECT_EQ(ReplayCase(stored, &runner).what, Replayed::kFails);
  stored.finding.failure = "Small@there";
  EXPECT_EQ(ReplayCase(stored, &runner).what, Replayed::kFailsDifferently);
}

// Fails if the facts about the small problem do not reach the file.
TEST_F(Pursuits, TheFileSaysWhatMayVaryAndWhatElseFails) {
  CaseRunner runner = Runner("mutant:tail-unmasked");
  const FailingProblem start =
      Failing("v1 regime=all-negative values=all-negative exp=4 n=2 v=65 h=3 seed=3", &runner);
  const Pursued pursued = Pursue(start, &runner, Unhurried());
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_EQ(pursued.kept.note, "");
  EXPECT_LE(ValueCount(pursued.stored.problem), 5);
  const Json& extra = pursued.stored.extra;
  EXPECT_EQ(TextOf(extra, "repeats"), "fails 5 of 5");
  ASSERT_NE(extra.Find("explain"), nullptr);
  EXPECT_THAT(*extra.Find("explain")->as_array(), Contains(HasText("V: fails unless V mod 64 is 0 (")));
  ASSERT_NE(extra.Find("also"), nullptr);
  EXPECT_THAT(*extra.Find("also")->as_array(),
              ::testing::IsSupersetOf({Json("bound:logprob"), Json("bound:lse"), Json("bound:loss")}));
  EXPECT_THAT(pursued.stored.bucket.key, HasSubstr("V!%64"));
  EXPECT_EQ(pursued.stored.bucket.id.size(), 8u);
  EXPECT_EQ(pursued.stored.state, CaseState::kConfirmed);
}

// Fails if a pursuit that is limited by tries looks at a clock, or takes more of them.
TEST_F(Pursuits, TriesReplaceTime) {
  CaseRunner runner = Runner("mutant:tail-unmasked");
  const FailingProblem start =
      Failing("v1 regime=all-negative values=all-negative exp=4 n=2 v=65 h=3 seed=3", &runner);
  PursuitOptions options;
  options.shrink_time = options.explain_time = milliseconds(0);
  options.tries = 300;
  const Pursued once = Pursue(start, &runner, options), twice = Pursue(start, &runner, options);
  ASSERT_EQ(once.kind, Judged::Kind::kJudged) << once.error;
  EXPECT_LE(once.kept.tried, 300);
  EXPECT_LE(ValueCount(once.stored.problem), 5);
  EXPECT_TRUE(once.stored == twice.stored);
  EXPECT_THAT(once.kept.explain, Contains(StartsWith("V: fails unless V mod 64 is 0 (")));
  EXPECT_EQ(once.kept.explain, twice.kept.explain);
}

// Fails if a problem that no worker takes counts as one that does not fail again.
TEST_F(Pursuits, WhatCannotBeRunAgainSaysWhy) {
  CaseRunner runner = Runner("mutant:logits-rounded");
  FailingProblem start = Failing("v1 seed=1 n=6 v=57 h=20", &runner);
  start.problem.layout.label_stride = int64_t{1} << 40;
  const Pursued pursued = Pursue(start, &runner, Unhurried());
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_THAT(pursued.kept.note, HasSubstr("label_stride is 1099511627776"));
  EXPECT_THAT(pursued.kept.note, StartsWith("it could not be run again: "));
  EXPECT_THAT(pursued.stored.finding.what, ::testing::Not(HasSubstr("fails 0 of")));
  EXPECT_EQ(pursued.stored.state, CaseState::kNew);
}

// Here the finding is not seen a second time. Fails if the problem is shrunk to one on which the
// finding was never seen, or if its note does not say so.
TEST_F(Pursuits, WhatIsNotSeenAgainIsStoredAsItCame) {
  CaseRunner host = Runner("host"), mutant = Runner("mutant:tail-unmasked");
  const FailingProblem start =
      Failing("v1 regime=all-negative values=all-negative exp=4 n=2 v=65 h=3 seed=3", &mutant);
  const Pursued pursued = Pursue(start, &host, Unhurried());
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_TRUE(pursued.stored.problem == start.problem);
  EXPECT_THAT(pursued.kept.note, StartsWith("fails 0 of 5; not seen again"));
  EXPECT_EQ(pursued.kept.accepted, 0);
}

// Shrinks the result once more. Fails if the loop to the fixpoint, or the order, depends on where the
// finding was first seen.
TEST_F(Pursuits, ShrinkingAShrunkCaseTakesNoStep) {
  for (const char* mutant : {"tail-unmasked", "max-from-zero", "logits-rounded", "entropy-not-rebased",
                             "first-grad-for-all", "grad-hidden-accumulator"}) {
    CaseRunner runner = Runner(std::string("mutant:") + mutant);
    FailingProblem start = Failing(
        "v1 regime=all-negative values=all-negative exp=9 n=4 v=300 h=11 grads=random "
        "entropy_grads=random seed=5",
        &runner);
    PursuitOptions options = Unhurried();
    options.explain_time = milliseconds(0);
    const Pursued once = Pursue(start, &runner, options);
    ASSERT_EQ(once.kind, Judged::Kind::kJudged) << once.error;
    ASSERT_EQ(once.kept.note, "") << mutant;
    start.problem = once.stored.problem;
    start.finding = once.stored.finding;
    const Pursued twice = Pursue(start, &runner, options);
    EXPECT_EQ(twice.kept.accepted, 0) << mutant;
    EXPECT_TRUE(twice.stored.problem == once.stored.problem) << mutant;
    EXPECT_EQ(twice.stored.bucket, once.stored.bucket);
  }
}

}  // namespace
}  // namespace plumbline::fuzz
