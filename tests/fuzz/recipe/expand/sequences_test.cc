// SPDX-License-Identifier: Apache-2.0
#include "fuzz/recipe/expand/sequences.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "fuzz/recipe/expand/expand.h"

namespace plumbline::fuzz {
namespace {

Recipe Parsed(const std::string& keys) {
  Recipe recipe;
  std::string error;
  EXPECT_TRUE(Parse("v1 " + keys, &recipe, &error)) << error;
  return recipe;
}

// Fails if a row is in two sequences or in none, an answer is empty, or lies where its kind has none.
TEST(Sequences, AreAllRowsInOrderEachWithAnAnswer) {
  for (const char* labels : {"prompts", "padded", "packed", "random"}) {
    for (int64_t n = 0; n < 300; n = n * 5 / 4 + 1) {
      for (const char* seed : {"1", "2", "3"}) {
        const Recipe r =
            Parsed("n=" + std::to_string(n) + " seed=" + seed + " labels=" + std::string(labels));
        int64_t next = 0;
        for (const Sequence& s : SequencesOf(r)) {
          EXPECT_EQ(s.begin, next);
          EXPECT_LE(s.begin, s.first);
          EXPECT_LT(s.first, s.last);
          EXPECT_LE(s.last, s.end);
          if (r.labels == Labels::kPacked) {
            EXPECT_EQ(s.last, s.end - s.begin > 1 ? s.end - 1 : s.end);
            EXPECT_LE(s.end - s.begin, 32);
          } else if (r.labels == Labels::kPadded) {
            EXPECT_EQ(s.first, s.begin);
          } else {
            EXPECT_LE(s.last - s.first, std::max<int64_t>((s.end - s.begin) / 8, 1));
          }
          next = s.end;
        }
        EXPECT_EQ(next, n);
      }
    }
  }
}

// Fails if a row outside of all answers counts, or one in an answer does not.
TEST(Sequences, LabelsCountInAnswersAlone) {
  for (const char* labels : {"prompts", "padded", "packed"}) {
    const Recipe r = Parsed("n=200 v=50 h=2 seed=5 labels=" + std::string(labels));
    const OwnedProblem problem = Expand(r);
    const std::vector<bool> ignored = IgnoredBySequence(r);
    int64_t counted = 0;
    for (int64_t i = 0; i < r.n; ++i) {
      EXPECT_EQ(problem.labels.GetInt(i) == problem.ignore_index, ignored[static_cast<size_t>(i)]);
      counted += ignored[static_cast<size_t>(i)] ? 0 : 1;
    }
    EXPECT_GT(counted, 0) << labels;
    EXPECT_LT(counted, r.n) << labels;
  }
}

// Fails if rows of one answer have different advantages, a group's do not add up to about 0, a prompt
// has one, or no sequence has a reward of its own.
TEST(Sequences, AdvantagesBelongToSequences) {
  bool some = false;
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
    const Recipe r = Parsed("n=64 v=9 h=2 labels=padded grads=advantages seed=" + std::string(seed));
    const OwnedProblem problem = Expand(r);
    std::vector<float> expected(64, 0.0F);
    double sum = 0;
    for (const Sequence& s : SequencesOf(r)) {
      const float advantage = problem.grad_logprob->GetFloat(s.first);
      for (int64_t i = s.first; i < s.last; ++i) expected[static_cast<size_t>(i)] = advantage;
      sum += advantage;
      some = some || advantage != 0;
    }
    for (int64_t i = 0; i < r.n; ++i) {
      EXPECT_EQ(problem.grad_logprob->GetFloat(i), expected[static_cast<size_t>(i)]) << i;
    }
    EXPECT_NEAR(sum, 0, 1e-5);
  }
  EXPECT_TRUE(some);
}

// Fails if no row is clipped, if all are, or if a mask is not 1 over the rows that it keeps.
TEST(Sequences, ClippedRowsAndMasksAreZeros) {
  int64_t zeros = 0, others = 0;
  for (const char* seed : {"1", "2", "3", "4"}) {
    const std::string rest = std::string("n=96 v=9 h=2 labels=packed seed=") + seed;
    const Recipe clipped = Parsed(rest + " grads=clipped"), plain = Parsed(rest + " grads=advantages");
    const OwnedProblem a = Expand(clipped), b = Expand(plain);
    for (int64_t i = 0; i < 96; ++i) {
      if (b.grad_logprob->GetFloat(i) == 0) continue;
      (a.grad_logprob->GetFloat(i) == 0 ? zeros : others) += 1;
    }
    const OwnedProblem masked = Expand(Parsed(rest + " grads=masked"));
    double sum = 0;
    for (int64_t i = 0; i < 96; ++i) sum += masked.grad_logprob->GetFloat(i);
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_GT(zeros, 5);
  EXPECT_GT(others, 5);
}

// Fails if half of a gradient is not zero, or all its zeros have one sign.
TEST(Sequences, UpstreamZerosHaveBothSigns) {
  const OwnedProblem problem = Expand(Parsed("n=200 v=9 h=2 grads=signed-zeros"));
  int64_t plus = 0, minus = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const float g = problem.grad_logprob->GetFloat(i);
    if (g == 0) (std::signbit(g) ? minus : plus) += 1;
  }
  EXPECT_GT(plus, 20);
  EXPECT_GT(minus, 20);
  EXPECT_LT(plus + minus, 180);
}

}  // namespace
}  // namespace plumbline::fuzz
