// SPDX-License-Identifier: Apache-2.0
//
// Cases on which kernels with steps in 16 bits, each as its contract has them, were suspect: a coarse
// rounding decides a confident row, and a baseline of another form decides it otherwise.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fuzz/examine/examine.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/catalogue.h"

namespace plumbline::fuzz {
namespace {

struct Suspected {
  std::string_view kernel, recipe;
};

class NarrowErrors : public ::testing::TestWithParam<Suspected> {};

// Fails if no baseline filters the label's 1 - p; if a rounded maximum, whose error s pays for until it
// is rounded itself, is no part of a floor; if what partial sums in 16 bits lose is measured by another
// order, which has the same bits, or by the mean over the vocabulary, where the largest logit errs the
// most; if a kernel that rounds probabilities is taken to round each use of them.
TEST_P(NarrowErrors, AreNotSuspect) {
  std::string error;
  const auto target = LoadTarget(
      std::string("plugin:" HONEST_PLUGINS "/honest-") + std::string(GetParam().kernel) + ".so",
      &error);
  ASSERT_TRUE(target) << error;
  Recipe recipe;
  ASSERT_TRUE(Parse(GetParam().recipe, &recipe, &error)) << error;
  ExamineOptions options;
  options.seed = recipe.seed;
  options.arbiter = false;
  options.honest_errors = true;
  const CaseResult result = Examine(Expand(recipe), *target, options);
  EXPECT_TRUE(result.findings.empty()) << result.findings.front().what;
  EXPECT_TRUE(IsJudged(result));
}

constexpr Suspected kSuspected[] = {
    // Its entropy's probabilities are rounded, those of backward are not.
    {"eager",
     "v1 regime=depth-tails seed=a670f2b9f6b810e6 dtype=fp16 n=32 v=129 h=66 values=confident exp=5 "
     "labels=last label_dtype=int32 grads=random entropy_grads=none reduction=none temperature=1 "
     "temperature_per_row=0 layout=vocab-major pad=0 grad_stride=1 fp32_grads=1"},
    {"bf16-partials",
     "v1 regime=entropy-extremes seed=71dd9470353a4704 dtype=fp16 n=591 v=283 h=67 values=confident "
     "exp=48 "
     "labels=argmax label_dtype=int32 grads=none entropy_grads=ones reduction=none temperature=1 "
     "temperature_per_row=1 layout=vocab-major pad=0 grad_stride=1 fp32_grads=0"},
    {"bf16-sum",
     "v1 regime=entropy-extremes seed=8e900debda2ae4fb dtype=fp16 n=34 v=128 h=65 values=confident "
     "exp=28 "
     "labels=argmax label_dtype=int64 grads=random entropy_grads=random reduction=none "
     "temperature=0x1p-1 "
     "temperature_per_row=0 layout=vocab-major pad=0 grad_stride=1 fp32_grads=0"},
    {"bf16-sum",
     "v1 regime=confident-label seed=eaddbe04e3756400 dtype=fp32 n=17 v=155 h=79 values=confident "
     "exp=24 "
     "labels=argmax label_dtype=int32 grads=first-zero entropy_grads=random reduction=none "
     "temperature=1 "
     "temperature_per_row=0 layout=vocab-major pad=8 grad_stride=1 fp32_grads=0 offset=5"},
    {"filtered",
     "v1 regime=confident-label seed=8f2b3d8db7c5552f dtype=bf16 n=17 v=348 h=80 values=confident "
     "exp=12 "
     "labels=argmax label_dtype=int64 grads=wide entropy_grads=wide reduction=none temperature=1 "
     "temperature_per_row=0 layout=vocab-major pad=0 grad_stride=0 fp32_grads=0 offset=2"}};

INSTANTIATE_TEST_SUITE_P(All, NarrowErrors, ::testing::ValuesIn(kSuspected),
                         [](const auto& tested) { return "Case" + std::to_string(tested.index); });

}  // namespace
}  // namespace plumbline::fuzz
