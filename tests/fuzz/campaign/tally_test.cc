// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/tally.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

const CaseClass kExact{.name = "exact", .aim = "sharp", .dtype = "bf16", .grads = "fp32"};
const CaseClass kHard{.name = "cancellation", .aim = "stress", .dtype = "fp32", .grads = "fp32"};

CaseResult Result(double logprob, double lse) {
  CaseResult result;
  result.outputs = {{.output = "logprob", .pass = 3, .vacuous = 1, .tightness = logprob},
                    {.output = "lse", .pass = 4, .tightness = lse},
                    {.output = "entropy", .vacuous = 2, .unspecified = 2}};
  result.arbitrated = 5;
  return result;
}

CaseRecord Record(const CaseResult& result, const CaseClass& case_class) {
  return RecordOf(result, /*retried=*/false, case_class);
}

// Fails if classes share a total, if the last case's tightness replaces the largest, or if a count is
// lost on the way through the journal.
TEST(Tally, KeepsTightnessAndCountsByClassAndOutput) {
  Tally tally;
  tally.Add(Record(Result(0.0625, 0.03125), kHard));
  tally.Add(Record(Result(0.5, 0.25), kExact));
  tally.Add(Record(Result(0.125, 0.75), kExact));
  ASSERT_EQ(tally.classes.size(), 2u);
  const ClassTally& exact = tally.classes.at(kExact);
  EXPECT_EQ(exact.cases, 2);
  EXPECT_EQ(exact.outputs.at("logprob").tightness, 0.5);
  EXPECT_EQ(exact.outputs.at("lse").tightness, 0.75);
  EXPECT_EQ(exact.outputs.at("logprob").elements, (ElementCounts{6, 0, 2, 0}));
  EXPECT_EQ(tally.classes.at(kHard).outputs.at("lse").tightness, 0.03125);
  EXPECT_EQ(tally.elements, (ElementCounts{21, 0, 9, 6}));
  EXPECT_EQ(tally.arbitrated, 15);
}

// Fails if the table lacks a class, or if the totals of an aim are those of one class.
TEST(Tally, JsonHoldsTheTableAndTheTotalsOfEachAim) {
  Tally tally;
  tally.Add(Record(Result(0.5, 0.25), kExact));
  tally.Add(Record(Result(0.125, 0.75), kHard));
  tally.Add(Record(Result(0.125, 0.75), kHard));
  const Json json = ToJson(tally);
  EXPECT_EQ(*json.Find("arbitrated")->as_int(), 15);
  const auto& classes = *json.Find("classes")->as_array();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(*classes[1].Find("class")->as_string(), "exact");
  EXPECT_EQ(*classes[1].Find("dtype")->as_string(), "bf16");
  const Json& outputs = *classes[1].Find("outputs");
  EXPECT_EQ(outputs.Find("logprob")->Find("tightness")->as_number(), 0.5);
  // An output that was never judged has no tightness: 0 would read as a perfect one.
  EXPECT_EQ(outputs.Find("entropy")->Find("tightness"), nullptr);
  const Json& stress = *json.Find("aims")->Find("stress");
  EXPECT_EQ(*stress.Find("entropy")->Find("vacuous")->as_int(), 4);
  EXPECT_EQ(*stress.Find("logprob")->Find("pass")->as_int(), 6);
}

// A skipped case belongs to no class: nothing of it was judged. Fails if it counts as passed, or if its
// reason is lost.
TEST(Tally, SkippedCasesAreInNoClass) {
  CaseResult skipped;
  skipped.verdict = oracle::Verdict::kSkipped;
  skipped.skip_reason = "because";
  Tally tally;
  tally.Add(Record(skipped, kExact));
  EXPECT_TRUE(tally.classes.empty());
  EXPECT_EQ(tally.skipped, 1);
  EXPECT_EQ(tally.pass, 0);
  EXPECT_EQ(tally.skip_reasons.at("because"), 1);
}

// Fails if a case of which nothing was judged is taken for one that passed.
TEST(Tally, VacuousCasesAreNotPassed) {
  Tally tally;
  for (const auto verdict : {oracle::Verdict::kVacuous, oracle::Verdict::kUnspecified}) {
    CaseResult result;
    result.verdict = verdict;
    tally.Add(Record(result, kExact));
  }
  EXPECT_EQ(tally.vacuous, 2);
  EXPECT_EQ(tally.pass, 0);
}

// Fails if a case is counted in the class of another kind of values, vocabulary or dtype, or if an
// unknown regime is taken for a sharp one.
TEST(CaseClassTest, FollowsValuesVocabularyAndDtypes) {
  const auto of = [](const std::string& line) {
    Recipe recipe;
    std::string error;
    EXPECT_TRUE(Parse(line, &recipe, &error)) << error;
    return ClassOf(recipe);
  };
  EXPECT_EQ(of("v1 regime=exact-dot values=lattice dtype=bf16 fp32_grads=1"), kExact);
  EXPECT_EQ(of("v1 regime=cancellation values=cancel dtype=fp32"), kHard);
  EXPECT_EQ(of("v1 regime=exact-dot values=lattice v=131072").name, "large-vocabulary");
  EXPECT_EQ(of("v1 regime=exact-dot values=lattice v=131071").name, "exact");
  EXPECT_EQ(of("v1 regime=of-my-own values=gaussian dtype=fp16").aim, "stress");
  EXPECT_EQ(of("v1 regime=of-my-own values=gaussian dtype=fp16").grads, "fp16");
}

}  // namespace
}  // namespace plumbline::fuzz
