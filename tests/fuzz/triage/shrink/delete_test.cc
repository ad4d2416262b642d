// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

// Returns the sum over the first column, in which an entry counts for 0 to 2.
double PositiveSum(const HostTensor& weight) {
  double sum = 0;
  for (int64_t v = 0; v < weight.shape[0]; ++v) {
    if (weight.shape[1] > 0) sum += std::clamp(weight.GetFloat(v * weight.shape[1]), 0.0f, 2.0f);
  }
  return sum;
}

// The finding needs many entries. Fails if deletion stops while an entry could still go.
TEST(ShrinkDelete, SumOverTheVocabularyEndsOneMinimal) {
  const auto fails = [](const OwnedProblem& p) { return PositiveSum(p.weight) > 40; };
  const ShrinkResult r = Checked(Busy(4, 700, 9), {"lse", 2, -1}, fails);
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.problem.rows(), 1);
  EXPECT_EQ(r.problem.hidden_size(), 1);
  for (int64_t gone = 0; gone < r.problem.vocab(); ++gone) {
    OwnedProblem smaller = r.problem;
    const auto at = smaller.weight.bytes.begin() + gone * 2;
    smaller.weight.bytes.erase(at, at + 2);
    smaller.weight.shape[0] -= 1;
    EXPECT_FALSE(fails(smaller)) << "entry " << gone << " was not needed";
  }
  // No entry counts for more than 2.
  EXPECT_EQ(r.problem.vocab(), 21);
}

// The defect is in the last, partial tile of a vocabulary of more than one tile. Fails if the residue
// is not kept, or if only deletion is tried (the other entries then stay as they were). There are three
// rows, so that no corner of one or two shows it at once.
TEST(ShrinkDelete, TailBugKeepsItsResidueAndLosesItsValues) {
  OwnedProblem start = Busy(6, 64 * 9 + 3, 16);
  start.weight.SetFloat((64 * 9 + 2) * 16 + 4, 6);
  const auto fails = [](const OwnedProblem& p) {
    if (p.rows() < 3 || p.vocab() < 64 || p.vocab() % 64 != 3) return false;
    float largest = 0;
    for (int64_t d = 0; d < p.hidden_size(); ++d) {
      largest = std::max(largest, p.weight.GetFloat((p.vocab() - 1) * p.hidden_size() + d));
    }
    return largest > 3;
  };
  const ShrinkResult r = Checked(start, {"logprob", 3, -1}, fails);
  EXPECT_EQ(r.problem.rows(), 3);
  EXPECT_EQ(r.problem.vocab(), 67);
  EXPECT_EQ(r.problem.hidden_size(), 1);
  std::vector<float> expected(67, 0.0f);
  expected.back() = 4;
  EXPECT_EQ(Floats(r.problem.weight), expected);
}

// The row fails alone and in its batch, but not with some of its neighbours. Fails if rows are deleted
// only a part at a time.
TEST(ShrinkDelete, RowThatMustBeAlone) {
  OwnedProblem start = Busy(12, 4, 3);
  start.hidden.SetFloat(7 * 3 + 1, 8);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    return Largest(p.hidden) > 3 && (p.rows() == 12 || p.rows() == 1);
  });
  EXPECT_EQ(r.problem.rows(), 1);
}

// The finding shows with six entries or with all 600. Fails if the vocabulary only ever loses parts of
// itself.
TEST(ShrinkDelete, FewEntriesAtOnce) {
  const ShrinkResult r = Checked(Busy(5, 600, 3), {"lse", 0, -1}, [](const OwnedProblem& p) {
    return p.rows() >= 3 && (p.vocab() == 600 || p.vocab() == 6);
  });
  EXPECT_EQ(r.problem.vocab(), 6);
}

// The row depends on its neighbour. Fails if rows are only ever reduced to one, or not at all.
TEST(ShrinkDelete, BatchVariantKeepsTwoRows) {
  const auto fails = [](const OwnedProblem& p) {
    for (int64_t i = 1; i < p.rows(); ++i) {
      if (p.hidden.GetFloat(i * p.hidden_size()) != p.hidden.GetFloat(0)) return true;
    }
    return false;
  };
  const ShrinkResult r = Checked(Busy(300, 40, 30), {"lse", 117, -1}, fails);
  EXPECT_EQ(r.problem.rows(), 2);
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(ValueCount(r.problem), 2 + 1 + 2);
}

// Row 3's label is the largest entry, and its logit is the largest too: deletion must keep label and
// entry together. Fails if labels are not renumbered with the vocabulary.
TEST(ShrinkDelete, LabelsFollowTheirEntries) {
  OwnedProblem start = Busy(6, 500, 3);
  start.labels.SetInt(3, 313);
  start.weight.SetFloat(313 * 3 + 1, 9);
  const auto fails = [](const OwnedProblem& p) {
    for (int64_t i = 0; i < p.rows(); ++i) {
      const int64_t y = p.labels.GetInt(i);
      if (y == p.ignore_index || y < 0 || y >= p.vocab() || p.vocab() < 3) continue;
      for (int64_t d = 0; d < p.hidden_size(); ++d) {
        if (p.weight.GetFloat(y * p.hidden_size() + d) > 5) return true;
      }
    }
    return false;
  };
  const ShrinkResult r = Checked(start, {"logprob", 3, -1}, fails);
  EXPECT_THAT(Floats(r.problem.weight), ::testing::ElementsAre(8, 0, 0));
  EXPECT_EQ(r.problem.labels.GetInt(0), 0);
}

// Fails if an invalid label becomes valid while the vocabulary shrinks.
TEST(ShrinkDelete, InvalidLabelStaysInvalid) {
  OwnedProblem start = Busy(5, 30, 3);
  start.labels.SetInt(2, 4000);
  const ShrinkResult r = Checked(start, {"logprob", 2, -1}, [](const OwnedProblem& p) {
    for (int64_t i = 0; i < p.rows(); ++i) {
      if (p.labels.GetInt(i) >= p.vocab() && p.labels.GetInt(i) != p.ignore_index) return true;
    }
    return false;
  });
  EXPECT_EQ(r.problem.vocab(), 1);
  EXPECT_EQ(r.problem.labels.GetInt(0), 1);
}

}  // namespace
}  // namespace plumbline::fuzz
