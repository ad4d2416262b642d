// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/gtest_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/baseline/drawn_problem.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string MessageOf(const kernel::Problem& problem, const kernel::Results& results) {
  return LikeHonestKernels("problem", "results", "contract", problem, results, {}).message();
}

// Fails if a right kernel is refused.
TEST(LikeHonestKernels, RightResultsPass) {
  const testing::Drawn drawn({}, 1);
  drawn.Compute("host");
  EXPECT_LIKE_HONEST_KERNELS(drawn.problem(), drawn.results(), oracle::Contract{});
}

// Fails if rounded logits, which are within every bound, pass; or if the message lacks the output, the
// ratio or the shortcut.
TEST(LikeHonestKernels, RoundedLogitsAreNamed) {
  const testing::Drawn drawn({.v = 5000, .h = 512}, 2);
  drawn.Compute("mutant:logits-rounded");
  kernel::Results forward = drawn.results();
  forward.grad_hidden.reset();
  forward.grad_weight.reset();
  forward.logprob.reset();  // beyond its bound in one row
  EXPECT_TRUE(oracle::WithinBound("", "", "", drawn.problem(), forward, {}));
  EXPECT_THAT(
      MessageOf(drawn.problem(), forward),
      AllOf(HasSubstr("results of problem errs more than 8 times"),
            HasSubstr("entropy: root mean square"), HasSubstr("explained by: logits rounded to bf16")));
}

// Fails if a broken bound is no failure, or if one that compares nothing is green.
TEST(LikeHonestKernels, OtherFailures) {
  const testing::Drawn drawn({}, 3), few({.n = 4}, 3);
  drawn.Compute("host");
  static_cast<float*>(drawn.results().logprob->data)[0] = 1;
  EXPECT_THAT(MessageOf(drawn.problem(), drawn.results()), HasSubstr("is outside its bound"));
  few.Compute("host");
  kernel::Results forward;
  forward.logprob = few.results().logprob;
  EXPECT_THAT(MessageOf(few.problem(), forward),
              AllOf(HasSubstr("nothing of results"), HasSubstr("logprob has 4 rows")));
}

}  // namespace
}  // namespace plumbline::fuzz
