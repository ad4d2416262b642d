// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/tally.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
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

// Fails if suspect cases count as failed or passed, or their elements are lost on the way through the
// journal.
TEST(Tally, SuspectCasesAreOfTheirOwn) {
  CaseResult result = Result(0.5, 2);
  result.verdict = oracle::Verdict::kSuspect;
  result.outputs[1].suspect = 3;
  const CaseRecord written = Record(result, kExact);
  EXPECT_TRUE(written.Judged());
  std::string error;
  auto read = FromJson<CaseRecord>(ToJson(written), "record", &error);
  ASSERT_TRUE(read) << error;
  read->case_class = kExact;
  Tally tally;
  tally.Add(*read);
  EXPECT_EQ(tally.suspect, 1);
  EXPECT_EQ(tally.pass + tally.fail, 0);
  EXPECT_EQ(tally.suspect_elements, 3);
  EXPECT_EQ(*ToJson(tally).Find("suspect")->as_int(), 1);
}

// Fails if a contract that one case contradicts is proposed, one that the target is held to already, or
// if any is proposed after a finding.
TEST(Tally, TheTightestConsistentContractIsProposed) {
  Tally tally;
  EXPECT_TRUE(ProposalOf(tally, "black-box").empty());
  CaseResult result = Result(0.5, 0.25);
  for (const double tight : {0.5, 0.25, 3.0}) {
    result.fits = {{"black-box", tight / 8}, {"hopper", tight / 4}, {"fp32", tight}};
    tally.Add(Record(result, kExact));
  }
  const auto text = [&](std::string_view held_to) {
    std::string all;
    for (const std::string& line : ProposalOf(tally, held_to)) all += line + "\n";
    return all;
  };
  EXPECT_EQ(text("black-box"),
            "contracts consistent with 3 cases (mean error/allowed): black-box (0.16), hopper (0.31)\n"
            "contracts contradicted (cases): fp32 (1)\n"
            "the tightest of them is hopper; hold the target to it with --contract hopper\n");
  EXPECT_EQ(text("hopper").find("hold"), std::string::npos);
  tally.fail = 2;  // cases that were not judged by the others
  EXPECT_NE(text("hopper").find("contradicted (cases): fp32 (1), hopper (2)"), std::string::npos);
  EXPECT_NE(text("black-box").find("contradicted (cases): black-box (2), fp32 (1)"), std::string::npos);
  tally.fail = 0;
  EXPECT_EQ(*ToJson(tally).Find("contracts")->Find("fp32")->Find("contradicted")->as_int(), 1);
  result.verdict = oracle::Verdict::kSuspect;
  tally.Add(Record(result, kExact));
  EXPECT_EQ(text("black-box").find("hold"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::fuzz
