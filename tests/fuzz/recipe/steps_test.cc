// SPDX-License-Identifier: Apache-2.0
#include "fuzz/recipe/steps.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

// Fails for a step to a line that Parse refuses, or to a case that costs a campaign seconds.
TEST(StepsTest, StepsStayWithinWhatCanBeRunAndAfforded) {
  std::string error;
  for (uint64_t i = 0; i < 4000; ++i) {
    const Recipe a = DrawRecipe(7, i), b = DrawRecipe(8, i);
    const Recipe r = TakeStep(a, b, i);
    Recipe parsed;
    ASSERT_TRUE(Parse(Format(r), &parsed, &error)) << error;
    ASSERT_EQ(parsed, r);
    EXPECT_EQ(r.regime, a.regime);
    const auto most = [](int64_t limit, int64_t now) { return std::max(limit, now); };
    EXPECT_LE(r.n * r.v * r.h, most(kStepMaxCost, a.n * a.v * a.h)) << Format(r);
    EXPECT_LE(r.v * r.h, most(kStepMaxWeights, a.v * a.h)) << Format(r);
  }
}

// Fails if the children of the largest cases are as large: a search would spend its time on them.
TEST(StepsTest, TheLargestHaveCheapChildren) {
  std::string error;
  for (const char* line : {"v1 n=66001 v=32771 h=2", "v1 n=1 v=262145 h=64"}) {
    Recipe a;
    ASSERT_TRUE(Parse(line, &a, &error)) << error;
    for (uint64_t seed = 0; seed < 500; ++seed) {
      const Recipe r = TakeStep(a, a, seed);
      EXPECT_LE(r.n * r.v * r.h, kStepMaxCost) << Format(r);
      EXPECT_LE(r.v * r.h, kStepMaxWeights) << Format(r);
    }
  }
}

// Fails for a step that changes more than its own part, and one that never changes anything.
TEST(StepsTest, AStepChangesItsPartAlone) {
  std::string error;
  Recipe a, b;
  ASSERT_TRUE(Parse("v1 regime=edges seed=5 n=4 v=100 h=10 exp=3", &a, &error)) << error;
  ASSERT_TRUE(
      Parse("v1 regime=huge seed=6 dtype=fp32 n=2 v=7 h=3 values=lattice exp=-1 labels=last "
            "label_dtype=int32 grads=random entropy_grads=ones reduction=mean layout=hidden-major "
            "pad=2 grad_stride=2 fp32_grads=1",
            &b, &error))
      << error;
  const std::array<std::string, kSteps> kExpected = {
      "v1 regime=edges seed=9 n=4 v=100 h=10 exp=3",
      "v1 regime=edges seed=5 n=4 v=100 h=10 exp=4",
      "v1 regime=edges seed=5 n=8 v=100 h=10 exp=3",
      "v1 regime=edges seed=5 n=4 v=200 h=10 exp=3",
      "v1 regime=edges seed=5 n=4 v=100 h=20 exp=3",
      "v1 regime=edges seed=5 n=4 v=100 h=10 values=lattice exp=-1",
      "v1 regime=edges seed=5 n=4 v=100 h=10 exp=3 labels=last",
      "v1 regime=edges seed=5 n=4 v=100 h=10 exp=3 grads=random entropy_grads=ones reduction=mean "
      "grad_stride=2",
      "v1 regime=edges seed=5 n=4 v=100 h=10 exp=3 layout=hidden-major pad=2 label_dtype=int32 "
      "fp32_grads=1"};
  // 9 = 0b1001: seed 9; exp changes by 1; and among the sizes the fifth step, twice the size, is taken
  // at 6.
  for (int step = 0; step < kSteps; ++step) {
    Recipe expected;
    ASSERT_TRUE(Parse(kExpected[static_cast<size_t>(step)], &expected, &error)) << error;
    const bool shape = step >= static_cast<int>(Step::kRows) && step <= static_cast<int>(Step::kHidden);
    EXPECT_EQ(Format(Apply(static_cast<Step>(step), a, b, shape ? 6 : 9)), Format(expected));
  }
}

// Fails for a child whose broadcast or scalar upstream gradient is of a kind that differs by row, which
// leaves only its element 0.
TEST(StepsTest, AChildsGradientsAreOfItsKind) {
  std::string error;
  for (const char* kind : {"first-zero", "one-hot", "alternating"}) {
    Recipe a, b;
    ASSERT_TRUE(Parse("v1 n=4 v=9 h=2", &a, &error)) << error;
    ASSERT_TRUE(Parse("v1 n=4 v=9 h=2 grad_stride=0 grads=" + std::string(kind), &b, &error)) << error;
    EXPECT_EQ(Apply(Step::kUpstream, a, b, 0).grad_stride, 1) << kind;
    b.reduction = kernel::Reduction::kSum;
    EXPECT_EQ(Apply(Step::kUpstream, a, b, 0).grads, Grads::kRandom) << kind;
  }
}

// Steps of a size go one up and down, to half and double, and around multiples of 16 and 64.
TEST(StepsTest, SizesMoveToWhereLoopsEnd) {
  Recipe a;
  a.v = 100;
  std::set<int64_t> sizes;
  for (uint64_t bits = 0; bits < 14; ++bits) sizes.insert(Apply(Step::kVocab, a, a, bits).v);
  EXPECT_EQ(sizes, (std::set<int64_t>{50, 64, 65, 96, 97, 99, 101, 111, 127, 200}));
  a.v = 1;
  for (uint64_t bits = 0; bits < 14; ++bits) EXPECT_GE(Apply(Step::kVocab, a, a, bits).v, 1);
}

}  // namespace
}  // namespace plumbline::fuzz
