// SPDX-License-Identifier: Apache-2.0
//
// Inference on a plug-in that is right, stores d_logits in the dtype of hidden and gives no entropy.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fuzz/campaign/inference.h"

namespace plumbline::fuzz {
namespace {

// Fails if a case is judged by an upstream gradient of an output that the target lacks, which it was
// never given.
TEST(SlowInferLimited, CasesAreTheTargets) {
  ::setenv("LIMITED_CAPABILITIES", R"({"entropy":false,"lse":false})", 1);
  for (const uint64_t seed : {2, 5}) {
    CampaignOptions options;
    options.program = PLUMB_PROGRAM;
    options.seed = seed;
    options.case_timeout = std::chrono::minutes(5);
    const std::atomic<bool> interrupt{false};
    const Inference inference = InferFor(
        options, "plugin:" HONEST_PLUGINS "/limited.so@" + std::string(kUndeclared), interrupt);
    EXPECT_EQ(inference.incomplete, "");
    EXPECT_GT(inference.failing, 0) << seed;
    EXPECT_EQ(inference.unexplained, 0) << seed;
    EXPECT_EQ(inference.contract, std::string(kUndeclared) + ",d_logits=input") << seed;
  }
  ::unsetenv("LIMITED_CAPABILITIES");
}

}  // namespace
}  // namespace plumbline::fuzz
