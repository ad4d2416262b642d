// SPDX-License-Identifier: Apache-2.0
//
// Tests every check of Examine against a target with exactly the fault that the check is for, and
// against the same target without it. Fails for a check that is never reached, one that blames the
// wrong output or row, and one that reports a fault that is not there.

#include "fuzz/examine/examine.h"
#include "fuzz/target/catalogue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/target/target.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

// Two rows, three columns; the first row has no upstream gradient, so its grad_hidden must be +0.
OwnedProblem Problem() {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(kernel::DType::kF32, {2, 2});
  p.weight = HostTensor::Zeros(kernel::DType::kF32, {3, 2});
  p.labels = HostTensor::Zeros(kernel::DType::kI64, {2});
  p.grad_logprob = HostTensor::Zeros(kernel::DType::kF32, {2});
  const float hidden[] = {0.5f, -1, 2, 0.25f}, weight[] = {1, 0.5f, -1, 2, 0.75f, -0.5f};
  for (int i = 0; i < 4; ++i) p.hidden.SetFloat(i, hidden[i]);
  for (int i = 0; i < 6; ++i) p.weight.SetFloat(i, weight[i]);
  p.labels.SetInt(1, 2);
  p.grad_logprob->SetFloat(1, 1);
  return p;
}

class Examined : public ::testing::Test {
 protected:
  CaseResult On(const std::string& fault, const ExamineOptions& options = {}) {
    std::string error;
    target_ = LoadTarget(workplace_.Plugin("faulty.c", fault, "-DFAULT=" + fault), &error);
    EXPECT_TRUE(target_) << error;
    return Examine(Problem(), *target_, options);
  }
  std::string Signature(const std::string& fault) {
    const CaseResult result = On(fault);
    EXPECT_EQ(result.harness_fault, "");
    EXPECT_EQ(result.verdict,
              result.findings.empty() ? oracle::Verdict::kPass : oracle::Verdict::kFail);
    return result.findings.empty() ? "" : result.findings.front().Signature();
  }

 private:
  testing::Workplace workplace_;
  std::unique_ptr<Target> target_;
};

// Several targets share one evaluation of the oracle. Fails for one target's answer that is judged as
// another's, a failure or a refusal that other targets hide, elements that are counted once.
TEST_F(Examined, Together) {
  const testing::Workplace place;
  const auto load = [&](const std::string& fault) {
    std::string error;
    auto target = LoadTarget(place.Plugin("faulty.c", fault, "-DFAULT=" + fault), &error);
    EXPECT_TRUE(target) << error;
    return target;
  };
  const auto right = load("NO_FAULT"), off = load("LSE_OFF"), declines = load("DECLINES");
  const auto examine = [](std::vector<const Target*> targets) { return Examine(Problem(), targets); };
  const CaseResult alone = examine({right.get()}), passed = examine({right.get(), right.get()});
  EXPECT_EQ(passed.verdict, oracle::Verdict::kPass);
  ASSERT_EQ(passed.outputs.size(), alone.outputs.size());
  for (size_t o = 0; o < alone.outputs.size(); ++o) {
    EXPECT_EQ(passed.outputs[o].output, alone.outputs[o].output);
    EXPECT_EQ(passed.outputs[o].pass, 2 * alone.outputs[o].pass);
    EXPECT_EQ(passed.outputs[o].tightness, alone.outputs[o].tightness);
  }
  for (const auto& both : {std::vector{right.get(), off.get()}, {off.get(), right.get()}}) {
    const CaseResult failed = examine({both.begin(), both.end()});
    EXPECT_EQ(failed.verdict, oracle::Verdict::kFail);
    ASSERT_EQ(failed.findings.size(), 1U);
    EXPECT_EQ(failed.findings[0].Signature(), "bound:lse");
    EXPECT_TRUE(failed.findings[0].what.starts_with(off->name() + ": lse[1]"))
        << failed.findings[0].what;
    EXPECT_FALSE(failed.findings[0].arbiter.empty());
  }
  for (const auto& both : {std::vector{right.get(), declines.get()}, {declines.get(), right.get()}}) {
    const CaseResult skipped = examine({both.begin(), both.end()});
    EXPECT_EQ(skipped.verdict, oracle::Verdict::kSkipped);
    EXPECT_EQ(skipped.skip_reason, declines->name() + ": the target: because");
  }
  EXPECT_EQ(examine({declines.get(), off.get()}).verdict, oracle::Verdict::kFail);
}

TEST_F(Examined, NoFaultNoFinding) { EXPECT_EQ(Signature("NO_FAULT"), ""); }
TEST_F(Examined, AWritePastTheEnd) { EXPECT_EQ(Signature("PAST_THE_END"), "guard-band"); }
// The outputs are those of the problem that was asked. Fails if a write goes unseen, or if they are judged
// by what the target left of its inputs.
TEST_F(Examined, AWriteIntoAnInput) {
  EXPECT_EQ(Signature("INTO_THE_INPUT"), "input-written");
  EXPECT_EQ(On("INTO_THE_INPUT").findings.size(), 1u);
}
TEST_F(Examined, AnOutputLeftUnwritten) {
  const CaseResult result = On("NOT_WRITTEN");
  bool found = false;
  for (const Finding& f : result.findings) found = found || f.Signature() == "unwritten:logprob";
  EXPECT_TRUE(found);
}
TEST_F(Examined, OtherBitsEachRun) {
  EXPECT_EQ(Signature("OTHER_BITS_EACH_RUN"), "nondeterministic:lse");
}
// The first run has this zero, and no bound is applied to it: the second run is the one that is judged.
TEST_F(Examined, AZeroOfAnotherSignEachRun) {
  EXPECT_EQ(Signature("ZERO_SIGN_EACH_RUN"), "nondeterministic:grad_hidden");
}
TEST_F(Examined, OtherBitsInABatch) {
  EXPECT_EQ(Signature("OTHER_BITS_IN_A_BATCH"), "batch-variant:lse");
}
// One row of many has other bits. Fails if no more than a row of a large batch is run again: it would
// be seen in one of 512 cases, and in half of them if half of the rows are.
TEST_F(Examined, OtherBitsOfOneRowOfManyAreSeen) {
  int seen = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const OwnedProblem many = SelectRows(Problem(), std::vector<int64_t>(512, 1));
    std::string error;
    const testing::Workplace place;
    const std::string fault = "OTHER_BITS_BESIDE_MANY";
    const auto target = LoadTarget(place.Plugin("faulty.c", fault, "-DFAULT=" + fault), &error);
    ASSERT_TRUE(target) << error;
    for (const Finding& f : Examine(many, *target, {.seed = seed}).findings) {
      EXPECT_EQ(f.Signature(), "batch-variant:lse");
      EXPECT_EQ(f.row, 256);
      ++seen;
      break;
    }
  }
  EXPECT_GE(seen, 2);  // none or one of 12: once in 300 by chance, and the seeds are fixed
}
TEST_F(Examined, ATargetThatFails) { EXPECT_EQ(Signature("FAILS"), "status:failed"); }
TEST_F(Examined, AValidProblemRefused) { EXPECT_EQ(Signature("REFUSES"), "status:invalid"); }
TEST_F(Examined, APositiveLogprob) { EXPECT_EQ(Signature("POSITIVE_LOGPROB"), "sign:logprob"); }
TEST_F(Examined, ANaN) { EXPECT_EQ(Signature("NAN_ENTROPY"), "non-finite:entropy"); }
TEST_F(Examined, MinusZeroWherePlusZeroIsPromised) {
  EXPECT_EQ(Signature("MINUS_ZERO"), "not-zero:grad_hidden");
}
TEST_F(Examined, AWrongInvalidRow) { EXPECT_EQ(Signature("INVALID_ROW"), "status:first_invalid_row"); }

TEST_F(Examined, ADeclinedProblemIsSkippedNotPassed) {
  const CaseResult result = On("DECLINES");
  EXPECT_EQ(result.verdict, oracle::Verdict::kSkipped);
  EXPECT_NE(result.skip_reason.find("because"), std::string::npos);
}

// Fails for a case that counts as passed although every element of it was unspecified.
TEST(ExaminedHost, WhatIsUnspecifiedIsNotPassed) {
  std::string error;
  const auto host = LoadTarget("host", &error);
  ASSERT_TRUE(host) << error;
  OwnedProblem p = Problem();
  for (int i = 0; i < 4; ++i) p.hidden.SetFloat(i, 0x1p100f);
  for (int i = 0; i < 6; ++i) p.weight.SetFloat(i, 0x1p100f);
  p.grad_logprob->SetFloat(0, 1);
  const CaseResult result = Examine(p, *host);
  EXPECT_EQ(result.harness_fault, "");
  EXPECT_EQ(result.verdict, oracle::Verdict::kVacuous);
}

TEST_F(Examined, AValueOutOfBoundsIsConfirmedByTheArbiter) {
  const CaseResult result = On("LSE_OFF");
  ASSERT_EQ(result.findings.size(), 1u);
  const Finding& f = result.findings.front();
  EXPECT_EQ(f.Signature(), "bound:lse");
  EXPECT_EQ(f.row, 1);
  EXPECT_GT(f.tightness, 10);
  EXPECT_NEAR(std::stod(f.arbiter), f.expected, 1e-14);  // the reference's radius is far below that
  EXPECT_EQ(f.arbiter_silent, "");
  const CaseResult unasked = On("LSE_OFF", {.arbiter = false});
  EXPECT_TRUE(unasked.findings.front().arbiter.empty());
  EXPECT_TRUE(unasked.findings.front().arbiter_silent.empty());
}

// Fails if a finding that is too dear for the arbiter does not say so, or loses it on its way as JSON.
TEST_F(Examined, AFindingTooDearForTheArbiterSaysSo) {
  const CaseResult result = On("LSE_OFF", {.arbiter_cost = 10});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].arbiter, "");
  EXPECT_EQ(result.findings[0].arbiter_silent, "it would take about 1 s");
  EXPECT_EQ(result.arbitrated, 0);
  const Json json = ToJson(result.findings[0]);
  ASSERT_NE(json.Find("arbiter_silent"), nullptr);
  std::string error;
  const auto back = FromJson<Finding>(json, "finding", &error);
  ASSERT_TRUE(back) << error;
  EXPECT_EQ(back->arbiter_silent, "it would take about 1 s");
}

// Fails for an arbiter that is asked about failures alone, and one that is asked without being wanted.
TEST_F(Examined, APassIsPutToTheArbiterWhereThatIsWanted) {
  const CaseResult asked = On("NO_FAULT", {.seed = 5, .arbiter_on_pass = true});
  EXPECT_EQ(asked.verdict, oracle::Verdict::kPass);
  EXPECT_EQ(asked.harness_fault, "");
  EXPECT_GE(asked.arbitrated, 5);
  EXPECT_EQ(On("NO_FAULT").arbitrated, 0);
}

// Fails for a field that is written under one name and read under another, an infinity that becomes
// null.
TEST_F(Examined, ResultsSurviveTheirJson) {
  for (const char* fault : {"LSE_OFF", "NAN_ENTROPY", "DECLINES"}) {
    const CaseResult result = On(fault);
    const Json json = ToJson(result);
    std::string error;
    const auto parsed = Json::Parse(json.Dump(), &error);
    ASSERT_TRUE(parsed) << error;
    const auto back = FromJson<CaseResult>(*parsed, "result", &error);
    ASSERT_TRUE(back) << error;
    EXPECT_EQ(ToJson(*back).Dump(), json.Dump());
  }
  std::string error;
  const Json wrong(Json::Object{{"verdict", Json("maybe")}});
  EXPECT_FALSE(FromJson<CaseResult>(wrong, "result", &error));
  EXPECT_EQ(
      error,
      "result.verdict is \"maybe\", not one of pass, fail, vacuous, unspecified, skipped, suspect");
}

}  // namespace
}  // namespace plumbline::fuzz
