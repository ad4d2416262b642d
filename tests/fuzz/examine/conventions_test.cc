// SPDX-License-Identifier: Apache-2.0
//
// Runs a foreign operator (tests/fuzz/plugins/conventional.c) on either side of each convention, and
// beyond it. Fails for a convention that is a finding, one that is not listed, and a value that no side
// of it has and that passes.

#include "fuzz/examine/conventions.h"
#include "fuzz/examine/examine.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/campaign/search/record.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two rows and three columns without a special value, upstream gradients of both kinds.
OwnedProblem Problem() {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(kernel::DType::kF32, {2, 2});
  p.weight = HostTensor::Zeros(kernel::DType::kF32, {3, 2});
  p.labels = HostTensor::Zeros(kernel::DType::kI64, {2});
  p.grad_logprob = HostTensor::Zeros(kernel::DType::kF32, {2});
  const float hidden[] = {0.5f, -1, 2, 0.25f}, weight[] = {1, 0.5f, 1.5f, 2, 0.75f, -0.5f};
  for (int i = 0; i < 4; ++i) p.hidden.SetFloat(i, hidden[i]);
  for (int i = 0; i < 6; ++i) p.weight.SetFloat(i, weight[i]);
  p.labels.SetInt(1, 1);
  for (int i = 0; i < 2; ++i) p.grad_logprob->SetFloat(i, 1.0f + static_cast<float>(i));
  return p;
}

OwnedProblem Reduced(kernel::Reduction reduction) {
  OwnedProblem p = Problem();
  p.reduction = reduction;
  p.grad_logprob = HostTensor::Zeros(kernel::DType::kF32, {});
  p.grad_logprob->SetFloat(0, 1.5f);
  return p;
}

// All logits of both rows are -infinity, as every weight of the first dimension is positive.
OwnedProblem Empty() {
  OwnedProblem p = Problem();
  for (int i = 0; i < 2; ++i) p.hidden.SetFloat(2 * i, -kInfinity);
  return p;
}

OwnedProblem WithoutRows() {
  OwnedProblem p = Reduced(kernel::Reduction::kMean);
  for (int i = 0; i < 2; ++i) p.labels.SetInt(i, p.ignore_index);
  return p;
}

OwnedProblem FirstLabel(OwnedProblem p, int64_t label) {
  p.labels.SetInt(0, label);
  return p;
}

// The logit of the second column is -infinity in both rows, the others are finite.
OwnedProblem LabelAtInfinity() {
  OwnedProblem p = Problem();
  p.weight.SetFloat(2, -kInfinity);
  return p;
}

class Conventions : public ::testing::Test {
 protected:
  CaseResult On(const std::string& side, const OwnedProblem& problem,
                const std::string& signs = "false") {
    std::string error;
    const std::string flags = "-DSIDE=" + side + " '-DSIGNS=\"" + signs + "\"'";
    const auto target = LoadTarget(place_.Plugin("conventional.c", side + signs, flags), &error);
    EXPECT_TRUE(target) << error;
    CaseResult result = Examine(problem, *target);
    EXPECT_EQ(result.harness_fault, "");
    return result;
  }
  // The conventions listed of a case without a finding.
  std::vector<std::string> Listed(const std::string& side, const OwnedProblem& problem) {
    const CaseResult result = On(side, problem);
    for (const Finding& f : result.findings) ADD_FAILURE() << side << ": " << f.what;
    return ConventionLines(result.conventions);
  }
  std::string Found(const std::string& side, const OwnedProblem& problem,
                    const std::string& signs = "false") {
    const CaseResult result = On(side, problem, signs);
    return result.findings.empty() ? "" : result.findings.front().Signature();
  }

 private:
  testing::Workplace place_;
};

TEST_F(Conventions, TheDefinitionIsNotListed) {
  for (const OwnedProblem& p :
       {Problem(), Empty(), WithoutRows(), FirstLabel(Problem(), 7), FirstLabel(Problem(), -100)}) {
    EXPECT_THAT(Listed("DEFINITION", p), IsEmpty());
  }
}

TEST_F(Conventions, LseOfNothing) {
  EXPECT_THAT(Listed("EMPTY_LSE", Empty()),
              ElementsAre("lse of nothing but -infinity: -infinity; the definition has NaN"));
  EXPECT_THAT(Listed("EMPTY_LSE_SOMETIMES", Empty()),
              ElementsAre("lse of nothing but -infinity: inconsistent, NaN in some cases and -infinity "
                          "in others; the definition has NaN"));
  EXPECT_EQ(Found("EMPTY_LSE_ZERO", Empty()), "non-finite:lse");
  EXPECT_EQ(Found("EMPTY_LSE_LOGPROB", Empty()), "non-finite:logprob");
}

TEST_F(Conventions, MeanOfNothing) {
  EXPECT_THAT(Listed("EMPTY_MEAN", WithoutRows()),
              ElementsAre("the mean of no row: NaN; the definition has 0"));
  EXPECT_EQ(Found("EMPTY_MEAN_ONE", WithoutRows()), "bound:loss");
  EXPECT_EQ(Found("EMPTY_MEAN_GRADIENTS", WithoutRows()), "not-zero:grad_weight");
}

TEST_F(Conventions, TheSignOfZero) {
  OwnedProblem p = Problem();
  p.grad_logprob->SetFloat(0, 0);
  EXPECT_THAT(Listed("MINUS_ZERO", p),
              ElementsAre("a gradient that is exactly zero: -0; the definition has +0"));
  EXPECT_EQ(Found("NEARLY_ZERO", p), "not-zero:grad_hidden");
}

TEST_F(Conventions, AnInvalidRow) {
  const OwnedProblem p = FirstLabel(Problem(), 7);
  EXPECT_THAT(Listed("REFUSES", p), ElementsAre("a row with an invalid label or temperature: refused; "
                                                "the definition has NaN"));
  EXPECT_EQ(Found("REFUSES_WRONGLY", p), "status:failed");
  EXPECT_EQ(Found("INVALID_ZERO", p), "non-finite:logprob");
}

TEST_F(Conventions, AnIgnoredRow) {
  const auto listed =
      ElementsAre("logprob, entropy and lse of an ignored row: other values; the definition has 0");
  const OwnedProblem p = FirstLabel(Problem(), -100);
  const OwnedProblem reduced = FirstLabel(Reduced(kernel::Reduction::kSum), -100);
  EXPECT_THAT(Listed("IGNORED_COMPUTED", p), listed);
  EXPECT_THAT(Listed("IGNORED_NAN", reduced), listed);
  EXPECT_EQ(Found("IGNORED_UNWRITTEN", p), "unwritten:logprob");
  EXPECT_EQ(Found("IGNORED_IN_LOSS", reduced), "bound:loss");
  EXPECT_EQ(Found("IGNORED_IN_GRADIENTS", p), "bound:grad_weight");
}

// Fails if 0 for the label's part in both gradients is a finding, or if 0 in one of them alone is none.
TEST_F(Conventions, TheLabelAtInfinity) {
  const OwnedProblem p = LabelAtInfinity();
  EXPECT_THAT(Listed("DEFINITION", p), IsEmpty());
  EXPECT_THAT(Listed("LABEL_ZERO", p),
              ElementsAre("the label's part of both gradients where its logit is -infinity: 0; the "
                          "definition has that of the formula"));
  EXPECT_EQ(Found("LABEL_ZERO_IN_HIDDEN", p), "non-finite:grad_hidden");
  oracle::ConventionsSeen seen = On("DEFINITION", p).conventions;
  seen.Add(On("LABEL_ZERO", p).conventions);
  EXPECT_THAT(ConventionLines(seen), ElementsAre(::testing::HasSubstr(": inconsistent, ")));
}

// Fails if a sign within its bound is a finding of a target that promises none, and if it is not of one
// that does, or beyond the bound.
TEST_F(Conventions, Signs) {
  OwnedProblem p = Problem();  // the label's logit leads by 40 in both rows
  for (int i = 0; i < 2; ++i) p.hidden.SetFloat(2 * i, 80), p.hidden.SetFloat(2 * i + 1, 0);
  p.labels.SetInt(0, 1);
  EXPECT_THAT(Listed("WRONG_SIGN", p), IsEmpty());
  EXPECT_EQ(Found("WRONG_SIGN", p, "true"), "sign:logprob");
  EXPECT_EQ(Found("SIGN_FAR_OFF", p), "bound:logprob");
}

// Fails if our own targets are given the latitude of a foreign one.
TEST(OwnTargets, PromiseTheDefinition) {
  for (const BuiltIn& target : BuiltInTargets()) {
    std::string error;
    const auto loaded = LoadTarget(target.name, &error);
    if (!loaded) continue;  // its device is not there
    EXPECT_TRUE(loaded->description().contract.promises.definition) << target.name;
    EXPECT_TRUE(loaded->description().contract.promises.signs) << target.name;
  }
}

// Fails if a convention is listed once a case, if what earlier cases showed is lost, or if a journal's
// line forgets it.
TEST(TallyOfConventions, ListsEachOnce) {
  CaseResult one, two;
  one.conventions.Note(oracle::Convention::kEmptyMean, true);
  one.conventions.Note(oracle::Convention::kZeroSign, true);
  two.conventions.Note(oracle::Convention::kEmptyMean, false);
  Tally tally;
  for (const CaseResult* result : {&one, &one, &two}) {
    std::string error;
    const auto record = FromJson<CaseRecord>(ToJson(RecordOf(*result, false, {})), "record", &error);
    ASSERT_TRUE(record) << error;
    tally.Add(*record);
  }
  EXPECT_THAT(ConventionLines(tally.conventions),
              ElementsAre("the mean of no row: inconsistent, 0 in some cases and NaN in others; the "
                          "definition has 0",
                          "a gradient that is exactly zero: -0; the definition has +0"));
  const Json json = ToJson(tally);
  EXPECT_EQ(json.Find("conventions")->Dump(),
            R"([{"convention":"empty-mean","definition":"0","follows":"NaN","inconsistent":true},)"
            R"({"convention":"zero-sign","definition":"+0","follows":"-0","inconsistent":false}])");
}

}  // namespace
}  // namespace plumbline::fuzz
