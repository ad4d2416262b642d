// SPDX-License-Identifier: Apache-2.0
//
// The GoogleTest assertions as a project of its own uses them, and what they say when they fail.

#include "oracle/judge/gtest_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "fuzz/baseline/gtest_matcher.h"
#include "kernel/linear_cross_entropy.h"
#include "tiny_problem.h"

namespace {

using plumbline::oracle::Contract;
using plumbline::oracle::ElementPlace;
using plumbline::oracle::Output;
using plumbline::oracle::WithinBound;
using testing::HasSubstr;

class Matcher : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(plumbline::kernel::Run(problem_, results_).ok()); }
  std::string Message() const {
    return WithinBound("problem", "results", "contract", problem_, results_, Contract{}).message();
  }

  TinyProblem tiny_;
  const plumbline::kernel::Problem problem_ = tiny_.problem();
  const plumbline::kernel::Results results_ = tiny_.results();
};

TEST_F(Matcher, RightResultsPass) {
  EXPECT_WITHIN_BOUND(problem_, results_, Contract{});
  ASSERT_WITHIN_BOUND(problem_, results_, Contract{});
  EXPECT_ELEMENT_WITHIN_BOUND(problem_, Contract{}, (ElementPlace{Output::kLogprob, 1, 0}), -kLn3);
  EXPECT_ELEMENT_WITHIN_BOUND(problem_, Contract{}, (ElementPlace{Output::kLse, 0, 0}), 1 + kLn3);
}

// Fails if a wrong result passes, or if the message leaves out the output, the element, what came, what
// is required, the ratio, the class or the count.
TEST_F(Matcher, WrongResultExplainsItself) {
  tiny_.logprob[1] += 0x1p-8F;
  EXPECT_NONFATAL_FAILURE(EXPECT_WITHIN_BOUND(problem_, results_, Contract{}), "outside its bound");
  const std::string message = Message();
  EXPECT_THAT(message, HasSubstr("results of problem is outside its bound in 1 elements"));
  EXPECT_THAT(message, HasSubstr("logprob: 1 of 2 judged elements are wrong"));
  EXPECT_THAT(message, HasSubstr("at worst logprob[1]: got -1.094706"));
  EXPECT_THAT(message, HasSubstr("required is -1.098612"));
  EXPECT_THAT(message, HasSubstr("(bound: off by 0.00390"));
  EXPECT_THAT(message, HasSubstr("times the bound"));
}

TEST_F(Matcher, OtherClassesOfFailure) {
  tiny_.entropy[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Message(), HasSubstr("at worst entropy[0]: got nan"));
  EXPECT_THAT(Message(), HasSubstr("(non-finite)"));
  tiny_.entropy[0] = -1;
  EXPECT_THAT(Message(), HasSubstr("(bound: off by 2.09861"));
  Contract signs;
  signs.promises.signs = true;
  EXPECT_THAT(WithinBound("problem", "results", "contract", problem_, results_, signs).message(),
              HasSubstr("(sign: an entropy is never negative)"));
}

// Fails if a test that judges nothing is green: no output, or one that the oracle cannot say anything
// of.
TEST_F(Matcher, NothingJudgedIsAFailure) {
  EXPECT_NONFATAL_FAILURE(EXPECT_WITHIN_BOUND(problem_, plumbline::kernel::Results{}, Contract{}),
                          "0 outputs are present");
  for (float& h : tiny_.hidden) h = 0x1p127F;  // beyond the range that is specified
  EXPECT_THAT(Message(), HasSubstr("was judged: 2 outputs are present, 0 elements are vacuous, 4"));
  const auto element = plumbline::oracle::ElementWithinBound(
      "p", "c", "e", "g", problem_, Contract{}, ElementPlace{Output::kLogprob, 0, 0}, -kLn3);
  EXPECT_THAT(element.message(), HasSubstr("was not judged"));
}

// Fails if the second tier cannot be linked by a project of its own, or says nothing where it compares
// nothing: these are two rows.
TEST_F(Matcher, HonestKernels) {
  EXPECT_NONFATAL_FAILURE(EXPECT_LIKE_HONEST_KERNELS(problem_, results_, Contract{}),
                          "was compared with honest kernels");
}

TEST_F(Matcher, OneElement) {
  EXPECT_NONFATAL_FAILURE(
      EXPECT_ELEMENT_WITHIN_BOUND(problem_, Contract{}, (ElementPlace{Output::kEntropy, 1, 0}), 1.5),
      "entropy[1] of problem_, given as 1.5, is wrong: got 1.5, required is 1.098612");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_ELEMENT_WITHIN_BOUND(problem_, Contract{}, (ElementPlace{Output::kEntropy, 2, 0}), 1.5),
      "does not exist");
}

// Fails if the oracle is led past the end of a tensor.
TEST_F(Matcher, ShapesThatDisagree) {
  plumbline::kernel::Results results = results_;
  results.entropy->shape[0] = 3;
  EXPECT_NONFATAL_FAILURE(EXPECT_WITHIN_BOUND(problem_, results, Contract{}),
                          "entropy has not the shape");
  const float one = 1;
  plumbline::kernel::Problem problem = problem_;
  problem.temperature = {&one, plumbline::kernel::DType::kF32, 1, {1, 1}, {1, 1}};
  EXPECT_NONFATAL_FAILURE(EXPECT_WITHIN_BOUND(problem, results_, Contract{}), "temperature is neither");
  std::swap(problem.temperature, problem.grad_logprob);
  EXPECT_NONFATAL_FAILURE(EXPECT_WITHIN_BOUND(problem, results_, Contract{}),
                          "grad_logprob is neither");
  std::swap(problem.grad_logprob, problem.grad_entropy);
  EXPECT_NONFATAL_FAILURE(EXPECT_WITHIN_BOUND(problem, results_, Contract{}),
                          "grad_entropy is not [N]");
}

}  // namespace
