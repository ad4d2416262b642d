// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/consistency_findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fuzz/examine/examine.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/interface/views.h"
#include "fuzz/triage/shrink/shrink.h"
#include "oracle/budget/inputs.h"

namespace plumbline::fuzz {
namespace {

const plumbline_target_v1& Operator() {
  const auto& all = BuiltInTargets();
  return *std::ranges::find(all, "host", &BuiltIn::name)->table;
}

// The host, whose one-hot counts three quarters in grad_weight.
int RunThin(const plumbline_problem* problem, plumbline_results* results, void* stream, char* why,
            size_t size) {
  const int status = Operator().run(problem, results, stream, why, size);
  kernel::Problem p;
  kernel::Results r;
  if (status != PLUMBLINE_OK || FromAbi(problem, results, kDLCPU, &p, &r) || !r.grad_weight)
    return status;
  const kernel::Tensor& t = *r.grad_weight;
  const oracle::Inputs in = oracle::LoadInputs(p);
  for (int64_t i = 0; i < p.rows() && t.dtype == kernel::DType::kF32; ++i) {
    const auto at = static_cast<size_t>(i);
    if (in.kind[at] != oracle::RowKind::kNormal) continue;
    for (int64_t d = 0; d < p.hidden_size(); ++d) {
      auto* x = static_cast<float*>(t.data) + in.label[at] * t.stride[0] + d * t.stride[1];
      *x -= static_cast<float>(0.25 * in.g[at] / in.temperature[at] *
                               oracle::ReadElement(p.hidden, i, d));
    }
  }
  return status;
}
const char* DescribeThin() { return Operator().describe(); }
constexpr plumbline_target_v1 kThin = {PLUMBLINE_TARGET_ABI_VERSION,
                                       sizeof(plumbline_target_v1),
                                       &DescribeThin,
                                       &RunThin,
                                       nullptr,
                                       nullptr,
                                       nullptr};

// Two rows whose logits cancel: sum |h w| is 2^21, so a logit may be off by 0.4 and a gradient by half
// of itself. `large` 1: nothing cancels.
OwnedProblem Cancelling(float large) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(kernel::DType::kF32, {2, 3});
  p.weight = HostTensor::Zeros(kernel::DType::kF32, {4, 3});
  p.labels = HostTensor::Zeros(kernel::DType::kI64, {2});
  p.grad_logprob = HostTensor::Zeros(kernel::DType::kF32, {2});
  for (int64_t i = 0; i < 2; ++i) {
    const float row[] = {large, large, 1.0F + 0.1F * static_cast<float>(i)};
    for (int64_t d = 0; d < 3; ++d) p.hidden.SetFloat(3 * i + d, row[d]);
    p.labels.SetInt(i, i + 1);
    p.grad_logprob->SetFloat(i, 1);
  }
  for (int64_t v = 0; v < 4; ++v) {
    const float row[] = {large, -large, 0.3F * static_cast<float>(v)};
    for (int64_t d = 0; d < 3; ++d) p.weight.SetFloat(3 * v + d, row[d]);
  }
  return p;
}

std::string Signatures(const CaseResult& result) {
  std::string all;
  for (const Finding& f : result.findings) all += f.Signature() + " ";
  return all;
}

// Logits that cancel leave room in each element's bound, and none in their sum. Fails if the checks are
// not made in a case, or if their tolerance has the logits' error where backward has forward's bits.
TEST(ConsistencyFindings, ShowWhatNoBoundShows) {
  std::string error;
  const auto thin = Target::Adopt("thin", &kThin, &error);
  ASSERT_TRUE(thin) << error;
  const CaseResult result = Examine(Cancelling(1024), *thin);
  EXPECT_EQ(Signatures(result), "consistency:column-sums:grad_weight ");
  EXPECT_EQ(result.verdict, oracle::Verdict::kFail);
  ASSERT_FALSE(result.findings.empty());
  const std::string& what = result.findings.front().what;
  EXPECT_NE(what.find("the columns of grad_weight do not add up to 0"), std::string::npos) << what;
  const auto host = LoadTarget("host", &error);
  ASSERT_TRUE(host) << error;
  EXPECT_EQ(Signatures(Examine(Cancelling(1024), *host)), "");
}

// Fails if a defect that a bound shows is told twice: the sum of a wrong output is wrong as well.
TEST(ConsistencyFindings, AreNoneOfAnOutputThatABoundShows) {
  std::string error;
  const auto thin = Target::Adopt("thin", &kThin, &error);
  ASSERT_TRUE(thin) << error;
  EXPECT_EQ(Signatures(Examine(Cancelling(1), *thin)), "bound:grad_weight ");
}

// The shrinker keeps to the check. Fails for a check that another problem of the same defect does not
// repeat.
TEST(ConsistencyFindings, Shrink) {
  std::string error;
  const auto thin = Target::Adopt("thin", &kThin, &error);
  ASSERT_TRUE(thin) << error;
  const std::string signature = "consistency:column-sums:grad_weight";
  const StillFails same = [&](const OwnedProblem& p) {
    const CaseResult result = Examine(p, *thin, {.arbiter = false});
    return std::ranges::any_of(result.findings,
                               [&](const Finding& f) { return f.Signature() == signature; });
  };
  const OwnedProblem given = Cancelling(1024);
  ShrinkOptions options;
  options.time_limit = std::chrono::minutes(10);
  const ShrinkResult shrunk = Shrink(given, {"grad_weight", 0, 0}, same, options);
  EXPECT_TRUE(shrunk.complete);
  EXPECT_LT(ValueCount(shrunk.problem), ValueCount(given));
  EXPECT_TRUE(same(shrunk.problem));
}

}  // namespace
}  // namespace plumbline::fuzz
