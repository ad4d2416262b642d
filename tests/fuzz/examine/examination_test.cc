// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fuzz/recipe/expand/expand.h"

namespace plumbline::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs that end as they are told to, and note what is asked of them.
class ToldRuns : public Runs {
 public:
  explicit ToldRuns(std::vector<RunOutcome> outcomes) : outcomes_(std::move(outcomes)) {}

  RunOutcome Run(int poison, bool held_up) override {
    asked.push_back("run " + std::to_string(poison) + (held_up ? " held up" : ""));
    return outcomes_[static_cast<size_t>(poison)];
  }
  std::vector<Placement::Damage> Inspect() override {
    asked.emplace_back("inspect");
    return damage;
  }
  void KeepBits() override { asked.emplace_back("keep"); }
  void CompareBits(std::vector<Finding>* findings) override {
    asked.emplace_back("compare");
    findings->emplace_back().kind = FindingKind::kNondeterministic;
  }
  double seconds() const override { return 0.25 * static_cast<double>(asked.size()); }

  std::vector<std::string> asked;
  std::vector<Placement::Damage> damage;

 private:
  std::vector<RunOutcome> outcomes_;
};

OwnedProblem Problem(Labels labels) {
  Recipe recipe;
  recipe.n = 4;
  recipe.v = 7;
  recipe.h = 3;
  recipe.labels = labels;
  return Expand(recipe);
}

const RunOutcome kOk, kRefused{RunStatus::kInvalid, "no"}, kFailed{RunStatus::kFailed, "broken"};

// Fails if the second run is not over the other poison, or is compared with anything but the first, or
// if damage is looked for when the second run has covered it.
TEST(Examination, TwoRunsAreComparedInOrder) {
  ToldRuns runs({kOk, kOk});
  runs.damage = {{Placement::Damage::Kind::kGuardBand, "band"},
                 {Placement::Damage::Kind::kInputWritten, "input"}};
  CaseResult result;
  EXPECT_TRUE(RunTwice(Problem(Labels::kRandom), true, &runs, &result));
  EXPECT_THAT(runs.asked, ElementsAre("run 0", "inspect", "keep", "run 1 held up", "compare"));
  ASSERT_EQ(result.findings.size(), 3U);
  EXPECT_EQ(result.findings[0].kind, FindingKind::kGuardBand);
  EXPECT_EQ(result.findings[1].kind, FindingKind::kInputWritten);
  EXPECT_EQ(result.findings[2].kind, FindingKind::kNondeterministic);
  EXPECT_EQ(result.target_seconds, 1.0);
}

// Fails if what was not run to its end is judged, if a refusal of invalid data is a finding, or if any
// other failure is none.
TEST(Examination, RunsThatDoNotEndWellAreNotJudged) {
  const auto examine = [](Labels labels, const RunOutcome& first, const RunOutcome& second) {
    ToldRuns runs({first, second});
    CaseResult result;
    EXPECT_FALSE(RunTwice(Problem(labels), false, &runs, &result));
    return result;
  };
  EXPECT_EQ(examine(Labels::kRandom, {RunStatus::kUnsupported, "fp16"}, kOk).skip_reason,
            "the target: fp16");
  EXPECT_TRUE(examine(Labels::kInvalid, kRefused, kOk).findings.empty());
  for (const CaseResult& result :
       {examine(Labels::kRandom, kRefused, kOk), examine(Labels::kInvalid, kFailed, kOk),
        examine(Labels::kRandom, kOk, kFailed), examine(Labels::kInvalid, kOk, kRefused)}) {
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(result.findings[0].kind, FindingKind::kStatus);
  }
}

// Fails if a failing element or a wrong first_invalid_row is no finding, if a count is lost, or if a
// case passes of which nothing was judged.
TEST(Examination, JudgementsBecomeFindings) {
  oracle::Judgement judgement;
  judgement.first_invalid_row = 3;
  oracle::OutputVerdict verdict;
  verdict.output = oracle::Output::kLse;
  verdict.vacuous = 5;
  judgement.outputs = {verdict};
  const auto tiered = [&](int64_t suspect) { return TieredJudgement{judgement, {suspect}}; };
  CaseResult result;
  EXPECT_TRUE(TakeJudgement(tiered(0), 3, &result));
  EXPECT_EQ(result.verdict, oracle::Verdict::kVacuous);
  EXPECT_TRUE(result.findings.empty());

  judgement.outputs[0].fail = 2;
  judgement.outputs[0].failure = oracle::Failure::kNonFinite;
  result = {};
  EXPECT_FALSE(TakeJudgement(tiered(0), -1, &result));
  ASSERT_EQ(result.findings.size(), 2U);
  EXPECT_EQ(result.findings[0].Signature(), "non-finite:lse");
  EXPECT_THAT(result.findings[1].what, HasSubstr("first_invalid_row = -1 where 3 is required"));
  ASSERT_EQ(result.outputs.size(), 1U);
  EXPECT_EQ(result.outputs[0].vacuous, 5);
  result = {};
  TakeJudgement(tiered(1), std::nullopt, &result);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].Signature(), "non-finite:lse");
  EXPECT_EQ(result.outputs[0].fail, 1);
  EXPECT_EQ(result.outputs[0].suspect, 1);
  result = {};
  TakeJudgement(tiered(2), std::nullopt, &result);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].Signature(), "suspect-non-finite:lse");
  EXPECT_EQ(VerdictOf(result.findings, oracle::Verdict::kPass), oracle::Verdict::kSuspect);
}

}  // namespace
}  // namespace plumbline::fuzz
