// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/pursuit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;

// Fails if the shrinker takes a candidate that fails in another way. This target is wrong in lse where
// V > 3, and in logprob elsewhere: the smallest failing problem fails in another output.
TEST(Pursuit, KeepsToTheFindingThatItBeganWith) {
  const testing::Workplace work;
  std::atomic<bool> interrupt{false};
  WorkerSpec spec;
  spec.target = work.Plugin("faulty.c", "SLIPPERY", "-DFAULT=SLIPPERY");
  spec.program = PLUMB_PROGRAM;
  CaseRunner runner(spec, 120s, &interrupt);
  FailingProblem start;
  OwnedProblem& p = start.problem;
  p.hidden = HostTensor::Zeros(kernel::DType::kF32, {2, 3});
  p.weight = HostTensor::Zeros(kernel::DType::kF32, {9, 3});
  p.labels = HostTensor::Zeros(kernel::DType::kI64, {2});
  for (int64_t i = 0; i < p.weight.size(); ++i) p.weight.SetFloat(i, static_cast<float>(i % 5) - 2);
  for (int64_t i = 0; i < p.hidden.size(); ++i) p.hidden.SetFloat(i, 0.5f);
  const Judged judged = runner.Run(RequestFor(p, start.seed));
  const Finding* found = FindSignature(judged.result, "bound:lse");
  ASSERT_NE(found, nullptr) << judged.error;
  start.finding = *found;

  PursuitOptions options;
  options.shrink_time = 10min;
  options.explain_time = 0ms;
  const Pursued pursued = Pursue(start, &runner, options);
  ASSERT_EQ(pursued.kind, Judged::Kind::kJudged) << pursued.error;
  EXPECT_EQ(pursued.harness_fault, "");
  EXPECT_EQ(pursued.stored.finding.Signature(), "bound:lse");
  EXPECT_EQ(pursued.stored.problem.vocab(), 4);
  EXPECT_LT(pursued.kept.values_after, pursued.kept.values_before);
}

}  // namespace
}  // namespace plumbline::fuzz
