// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz/examine/examine.h"
#include "fuzz/examine/placement.h"
#include "fuzz/examine/relation.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using oracle::Judgement, oracle::Output, oracle::OutputVerdict;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

OutputVerdict Failing(Output output, int64_t fail, int64_t row) {
  OutputVerdict v;
  v.output = output;
  v.pass = 10 - fail;
  v.fail = fail;
  v.row = row;
  return v;
}

Judgement Of(std::vector<OutputVerdict> outputs) {
  Judgement judgement;
  judgement.outputs = std::move(outputs);
  return judgement;
}

// Fails if a wrong element is called suspect, a suspect one wrong, if the worst element of an output
// that is wrong is one that is only suspect, or if elements are lost or counted twice.
TEST(Tiers, WhatIsDeclaredDecidesWhatIsWrong) {
  Description silent;
  silent.assumptions = {true, true};
  std::vector<bool> exact;
  const std::vector<TieredJudgement> tiered = JudgeInTiers(silent, [&](const oracle::Contract& by) {
    exact.push_back(by.scale_exact_powers);
    const bool first = exact.size() == 1;
    return std::vector{
        Of({Failing(Output::kLogprob, first ? 3 : 1, first ? 7 : 2),
            Failing(Output::kEntropy, first ? 2 : 0, first ? 5 : 9), Failing(Output::kLse, 0, 1)})};
  });
  EXPECT_THAT(exact, ElementsAre(true, false));
  ASSERT_EQ(tiered.size(), 1U);
  const TieredJudgement& t = tiered.front();
  EXPECT_TRUE(t.Failed());
  EXPECT_THAT(t.suspect, ElementsAre(2, 2, 0));
  EXPECT_FALSE(t.IsSuspect(0));
  EXPECT_TRUE(t.IsSuspect(1));
  EXPECT_FALSE(t.IsSuspect(2));
  EXPECT_EQ(t.judgement.outputs[0].row, 2);
  EXPECT_EQ(t.judgement.outputs[1].row, 5);
  for (const OutputVerdict& v : t.judgement.outputs) EXPECT_EQ(v.pass + v.fail, 10);
}

// Fails if the oracle sweeps twice where nothing is assumed, or where nothing fails.
TEST(Tiers, AreJudgedOnceWhereTheSecondSaysNothing) {
  Description declared, silent;
  silent.assumptions = {true, true};
  int64_t asked = 0, fail = 1;
  const auto judge = [&](const oracle::Contract&) {
    ++asked;
    return std::vector{Of({Failing(Output::kLse, fail, 0)})};
  };
  EXPECT_THAT(JudgeInTiers(declared, judge).front().suspect, ElementsAre(0));
  EXPECT_EQ(asked, 1);
  fail = 0;
  EXPECT_FALSE(JudgeInTiers(silent, judge).front().Failed());
  EXPECT_EQ(asked, 2);
}

// Two equal logits of 1000 + 3/8: logprob is -ln 2, and x_y - lse loses its last ten bits.
OwnedProblem Offset() {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(kernel::DType::kF32, {1, 1});
  p.weight = HostTensor::Zeros(kernel::DType::kF32, {2, 1});
  p.labels = HostTensor::Zeros(kernel::DType::kI64, {1});
  p.hidden.SetFloat(0, 1);
  for (int v = 0; v < 2; ++v) p.weight.SetFloat(v, 1000.375F);
  p.wanted = {};
  return p;
}

// A kernel for that problem: lse is m + ln s, logprob x_y - lse.
int Unshifted(const plumbline_problem* p, plumbline_results* r, void*, char*, size_t) {
  const auto data = [](const DLTensor* t) {
    return t == nullptr ? nullptr : static_cast<char*>(t->data) + t->byte_offset;
  };
  const float z = *reinterpret_cast<const float*>(data(p->weight));
  const float lse = z + std::log(2.0F);
  if (r->lse != nullptr) *reinterpret_cast<float*>(data(r->lse)) = lse;
  if (r->logprob != nullptr) *reinterpret_cast<float*>(data(r->logprob)) = z - lse;
  if (r->first_invalid_row != nullptr) {
    *reinterpret_cast<int64_t*>(data(r->first_invalid_row)) = -1;
  }
  return PLUMBLINE_OK;
}

const plumbline_target_v1 kUnshifted = {
    PLUMBLINE_TARGET_ABI_VERSION,
    sizeof(plumbline_target_v1),
    [] {
      return R"({"name": "unshifted", "capabilities": {"entropy": false,
        "grad_hidden": false, "grad_weight": false}})";
    },
    Unshifted,
    nullptr,
    nullptr,
    nullptr};

// Examines it under its own contract, which is empty, or under the one with these keys.
CaseResult OnUnshifted(const std::string& keys = "") {
  std::string error;
  const auto target = Target::Adopt("unshifted", &kUnshifted, &error);
  EXPECT_TRUE(target) << error;
  if (!target) return {};
  const testing::Workplace place;
  if (!keys.empty()) {
    std::ofstream(place / "mine.json") << R"({"name": "m", "contract": {)" << keys << "}}";
    EXPECT_TRUE(target->HoldTo((place / "mine.json").string(), &error)) << error;
  }
  // A seed that asks for no relation: the kernel is for this problem alone.
  uint64_t seed = 1;
  while (!RelationsToTry(seed, "").empty()) ++seed;
  CaseResult result = Examine(Offset(), *target, {.seed = seed});
  EXPECT_EQ(result.harness_fault, "");
  return result;
}

// Fails if x_y - lse passes in a kernel that declares nothing, if it is called wrong there, if it is
// not told with both of its readings, or if a line that opts out has no effect.
TEST(Tiers, AnUnshiftedLogprobIsSuspect) {
  const CaseResult result = OnUnshifted();
  EXPECT_EQ(result.verdict, oracle::Verdict::kSuspect);
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_TRUE(finding.suspect);
  EXPECT_EQ(finding.Signature(), "suspect-bound:logprob");
  EXPECT_NE(finding.arbiter, "");
  EXPECT_GT(finding.tightness, 1);
  EXPECT_THAT(finding.readings,
              ElementsAre(Field(&SuspectReading::opt_out, "\"plain_logprob\": true"),
                          Field(&SuspectReading::opt_out, "\"scale_exact_powers\": false")));
  for (const SuspectReading& reading : finding.readings) {
    EXPECT_THAT(OnUnshifted(reading.opt_out).findings, IsEmpty()) << reading.opt_out;
  }
  EXPECT_EQ(OnUnshifted("\"scale_exact_powers\": true").verdict, oracle::Verdict::kFail);
}

// Fails if a contract that the results contradict is said to be consistent, if one of them is left out,
// or if a target that declares all is tried by others.
TEST(Tiers, NamedContractsAreTried) {
  std::string error;
  const auto host = LoadTarget("host@black-box", &error), own = LoadTarget("host", &error);
  ASSERT_TRUE(host && own) << error;
  std::vector<ContractFit> fits;
  for (uint64_t seed = 0; seed < 64 && fits.empty(); ++seed) {
    fits = Examine(Offset(), *host, {.seed = seed}).fits;
    EXPECT_THAT(Examine(Offset(), *own, {.seed = seed}).fits, IsEmpty());
  }
  ASSERT_EQ(fits.size(), NamedContracts().size());
  for (const ContractFit& fit : fits) EXPECT_LE(fit.tightness, 1) << fit.contract;

  const OwnedProblem problem = Offset();
  Placement placement(problem);
  ASSERT_EQ(host->Run(placement.problem(), placement.results()).status, RunStatus::kOk);
  static_cast<float*>(placement.results().lse->data)[0] += 0x1p-12F;  // four ulps
  const auto of = [&](const std::string& name) {
    const auto all = FitsOf(placement.problem(), placement.results());
    return std::ranges::find(all, name, &ContractFit::contract)->tightness;
  };
  EXPECT_LE(of("triton"), 1) << "it rounds its logits";
  static_cast<float*>(placement.results().lse->data)[0] = std::nanf("");
  EXPECT_GT(of("triton"), 1) << "no contract has a NaN there";
  ASSERT_EQ(host->Run(placement.problem(), placement.results()).status, RunStatus::kOk);
  static_cast<float*>(placement.results().lse->data)[0] += 0x1p-12F;
  EXPECT_GT(of("pytorch-fp32-logits"), 1) << "its lse is rounded once";
}

}  // namespace
}  // namespace plumbline::fuzz
