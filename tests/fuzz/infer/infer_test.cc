// SPDX-License-Identifier: Apache-2.0
//
// Inference on mutants: those that round a step, and those that are wrong.

#include "fuzz/infer/infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fuzz/campaign/inference.h"
#include "fuzz/cli/inference_text.h"
#include "fuzz/infer/collect.h"
#include "fuzz/target/catalogue.h"

namespace plumbline::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Inference Inferred(const std::string& target, uint64_t seed = 2) {
  CampaignOptions options;
  options.program = PLUMB_PROGRAM;
  options.seed = seed;
  // Instrumented, beside other tests, one inference took more than 92 s.
  options.case_timeout = std::chrono::minutes(5);
  const std::atomic<bool> interrupt{false};
  Inference inference = InferFor(options, target + "@" + std::string(kUndeclared), interrupt);
  EXPECT_EQ(inference.incomplete, "");
  EXPECT_GT(inference.cases, 150);
  return inference;
}

std::vector<std::string> Declares(const Inference& inference) {
  std::vector<std::string> words;
  for (const InferredShortcut& shortcut : inference.shortcuts) words.push_back(shortcut.declares);
  return words;
}

// Fails if a kernel that keeps the base's contract is said to round something.
TEST(Infer, NothingIsFoundWhereNothingIsRounded) {
  const Inference host = Inferred("host");
  EXPECT_EQ(host.failing, 0);
  EXPECT_THAT(host.shortcuts, IsEmpty());
  EXPECT_EQ(host.contract, kUndeclared);
}

void ExpectNamed(const std::string& mutant, const std::string& words) {
  const Inference inference = Inferred("mutant:" + mutant);
  EXPECT_THAT(Declares(inference), ElementsAre(words)) << mutant;
  EXPECT_EQ(inference.contract, std::string(kUndeclared) + "," + words);
  EXPECT_EQ(inference.unexplained, 0) << mutant;
  ASSERT_FALSE(inference.shortcuts.empty()) << mutant;
  EXPECT_GT(inference.shortcuts[0].error, 0) << mutant;
  EXPECT_NE(inference.shortcuts[0].recipe, "") << mutant;
}

// Fails if a rounding gets another's name, leaves cases that it explains, or is told without evidence.
TEST(Infer, RoundedLogitsAreNamed) { ExpectNamed("logits-rounded", "logits=bf16"); }

// As above, of other steps and dtypes.
TEST(Infer, ARoundingIsNamed) {
  ExpectNamed("logits-fp16", "logits=fp16");
  ExpectNamed("logprob-rounded", "outputs.logprob=bf16");
}

// Fails if the cases of a seed lack a dtype, a reduction or a length without which a rounding does not
// show: seed 6 once had no fp32 and no loss, and seed 8 no rows beyond one chunk.
TEST(SlowInfer, ARoundingOfSomeInputsIsNamedWhateverTheSeed) {
  for (const auto& [mutant, words, seed] :
       {std::tuple{"d-logits-rounded", "d_logits=bf16", 6},
        std::tuple{"loss-rounded", "outputs.loss=bf16", 6},
        std::tuple{"grad-weight-accumulator", "accumulator=bf16,row_chunk=16,vocab_chunk=1099511627776",
                   8},
        std::tuple{"grad-hidden-accumulator",
                   "accumulator=bf16,vocab_chunk=256,row_chunk=1099511627776", 6}}) {
    const Inference inference = Inferred(std::string("mutant:") + mutant, static_cast<uint64_t>(seed));
    EXPECT_THAT(Declares(inference), ElementsAre(words)) << mutant;
    EXPECT_EQ(inference.unexplained, 0) << mutant;
  }
}

// Fails if a rounding that no contract may declare is declared, or not named.
TEST(SlowInfer, ARoundingWithoutAKeyStaysABug) {
  for (const auto& [mutant, what] :
       {std::pair{"exponential-base", "log2(e) rounded in the exponentials to bf16"},
        std::pair{"inputs-tf32", "hidden rounded to TF32 in the logits alone"}}) {
    const Inference inference = Inferred(std::string("mutant:") + mutant, 3);
    ASSERT_THAT(Declares(inference), ElementsAre("")) << mutant;
    EXPECT_EQ(inference.shortcuts[0].what, what);
    EXPECT_EQ(inference.contract, kUndeclared) << mutant;
    EXPECT_EQ(inference.unexplained, inference.failing) << mutant;
    EXPECT_GT(inference.unexplained, 0) << mutant;
  }
}

// Fails if the bound of a shortcut, wide enough, explains a bug away.
TEST(SlowInfer, ABugIsExplainedByNothing) {
  for (const auto& [mutant, seed] :
       {std::pair{"label-off-by-one", 2}, std::pair{"first-temperature-for-all", 2},
        std::pair{"hidden-tail-dropped", 2}, std::pair{"entropy-not-rebased", 5},
        std::pair{"plain-grad-divided", 5}, std::pair{"logprob-grad-dropped", 5}}) {
    const Inference inference = Inferred(std::string("mutant:") + mutant, static_cast<uint64_t>(seed));
    EXPECT_THAT(inference.shortcuts, IsEmpty()) << mutant;
    EXPECT_EQ(inference.unexplained, inference.failing) << mutant;
    EXPECT_GT(inference.failing, 0) << mutant;
  }
}

// Fails if a case begins when time is over, or if those that did not are not counted, or not told.
TEST(Infer, WhatTimeHadNoRoomForIsCounted) {
  std::string error;
  const auto host = LoadTarget("host", &error);
  ASSERT_NE(host, nullptr) << error;
  const std::string recipes = "v1 seed=1 n=2 v=3 h=4\nv1 seed=2 n=2 v=3 h=4\n";
  int64_t left = -1;
  EXPECT_THAT(CollectCases(recipes, *host, /*same_shape=*/false, std::chrono::milliseconds(0), &left),
              IsEmpty());
  EXPECT_EQ(left, 2);
  EXPECT_EQ(CollectCases(recipes, *host, false, std::chrono::minutes(5), &left).size(), 2);
  EXPECT_EQ(left, 0);
  Inference inference;
  inference.cases = 13;
  inference.failing = 11;
  inference.left = 179;
  EXPECT_EQ(InferenceText(inference),
            "  11 of 13 cases break it; 179 more were not run, time was over\n");
}

}  // namespace
}  // namespace plumbline::fuzz
