// SPDX-License-Identifier: Apache-2.0
//
// Errors in honest units of a plug-in that cannot do everything.

#include "fuzz/compare/accuracy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>

#include "fuzz/infer/infer.h"

namespace plumbline::fuzz {
namespace {

// Fails if a target that cannot do a problem is not given one that it can, if that is not counted, or
// if an output that it lacks is.
TEST(AccuracyLimited, ProblemsAreTheTargets) {
  ::setenv("LIMITED_CAPABILITIES",
           R"({"entropy":false,"lse":false,"dtypes":["fp32"],"vocab_multiple":64})", 1);
  AccuracyOptions options;
  options.yardstick = kUndeclared;
  options.problems = 2;
  options.case_timeout = std::chrono::minutes(10);
  options.program = PLUMB_PROGRAM;
  const std::atomic<bool> interrupt{false};
  const Accuracy accuracy = MeasureAccuracy("plugin:" HONEST_PLUGINS "/limited.so", options, interrupt);
  ::unsetenv("LIMITED_CAPABILITIES");
  EXPECT_EQ(accuracy.incomplete, "");
  EXPECT_EQ(accuracy.judged, 2);
  EXPECT_EQ(accuracy.changed, 2);
  ASSERT_EQ(accuracy.outputs.size(), 3U);
  EXPECT_EQ(accuracy.outputs.front().output, "logprob");
  EXPECT_GT(accuracy.outputs.front().p99, 0);
}

}  // namespace
}  // namespace plumbline::fuzz
