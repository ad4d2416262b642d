// SPDX-License-Identifier: Apache-2.0
#include "fuzz/recipe/expand/argmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline::fuzz {
namespace {

using kernel::DType;

OwnedProblem Problem(int64_t n, int64_t v, int64_t h) {
  OwnedProblem problem;
  problem.hidden = HostTensor::Zeros(DType::kF32, {n, h});
  problem.weight = HostTensor::Zeros(DType::kF32, {v, h});
  return problem;
}

// Puts the largest logit into every column, in whole blocks and in cut ones. Fails for a column left
// out, a row's maximum shared with another row, or columns past the vocabulary that are read (all real
// logits are negative).
TEST(Argmaxes, FindsEveryColumn) {
  for (const int64_t v : {1, 2, 7, 8, 9, 16, 19}) {
    for (int64_t winner = 0; winner < v; ++winner) {
      OwnedProblem problem = Problem(2, v, 3);
      for (int64_t k = 0; k < 6; ++k) problem.hidden.SetFloat(k, k < 3 ? 1.0F : 2.0F);
      for (int64_t k = 0; k < v * 3; ++k) problem.weight.SetFloat(k, -5.0F);
      problem.weight.SetFloat(winner * 3 + 2, -4.0F);
      EXPECT_EQ(Argmaxes(problem), (std::vector<int64_t>{winner, winner})) << "V = " << v;
    }
  }
}

TEST(Argmaxes, IsTheFirstOfEquals) {
  OwnedProblem problem = Problem(1, 20, 1);
  problem.hidden.SetFloat(0, 1);
  for (const int64_t v : {9, 13, 17}) problem.weight.SetFloat(v, 3);
  EXPECT_EQ(Argmaxes(problem), (std::vector<int64_t>{9}));
}

TEST(Argmaxes, OfNothingIsTheFirstColumn) {
  EXPECT_EQ(Argmaxes(Problem(2, 0, 3)), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(Argmaxes(Problem(2, 5, 0)), (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(Argmaxes(Problem(0, 5, 3)).empty());
}

TEST(Argmaxes, ANaNIsNeverTheLargest) {
  OwnedProblem problem = Problem(1, 3, 1);
  problem.hidden.SetFloat(0, 1);
  problem.weight.SetFloat(0, std::numeric_limits<float>::quiet_NaN());
  problem.weight.SetFloat(2, 1);
  EXPECT_EQ(Argmaxes(problem), (std::vector<int64_t>{2}));
}

}  // namespace
}  // namespace plumbline::fuzz
