// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fuzz/cases/corpus.h"

namespace plumbline::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A case with one row and column; `mark` is its value. Cases of equal v are in one bucket, since the
// value does not change it: these values are all finite, positive, above one.
MergeCase Make(const std::string& path, float mark, int64_t v = 1) {
  MergeCase merged;
  merged.path = path;
  Case& c = merged.c;
  c.problem.hidden = HostTensor::Zeros(kernel::DType::kF32, {1, 1});
  c.problem.weight = HostTensor::Zeros(kernel::DType::kF32, {v, 1});
  c.problem.labels = HostTensor::Zeros(kernel::DType::kI64, {1});
  c.problem.hidden.SetFloat(0, mark);
  c.target = "mutant:x";
  c.state = CaseState::kConfirmed;
  c.finding.output = "lse";
  return merged;
}

std::vector<std::string> Paths(const std::vector<MergeCase>& cases) {
  std::vector<std::string> paths;
  for (const MergeCase& merged : cases) paths.push_back(merged.path);
  return paths;
}

// Fails for a duplicate kept, or two cases taken for one because only part of them was compared.
TEST(Merge, SameProblemTargetAndSignatureIsOneCase) {
  std::vector<MergeCase> cases = {Make("a", 2), Make("b", 2), Make("c", 3), Make("d", 2), Make("e", 2)};
  cases[3].c.target = "mutant:y";
  cases[4].c.finding.output = "entropy";
  cases[1].c.drawn_by = "zzz: its bytes come later";
  std::vector<Dropped> dropped;
  EXPECT_THAT(Paths(DropDuplicates(cases, &dropped)), UnorderedElementsAre("a", "c", "d", "e"));
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].path, "b");
  EXPECT_THAT(dropped[0].why, HasSubstr("the same case as a"));
}

// Fails for a state or a file of the corpus lost to a newcomer with the same problem.
TEST(Merge, OfEqualsTheOneThatStaysThenTheHigherState) {
  std::vector<MergeCase> cases = {Make("a", 2), Make("b", 2)};
  cases[1].c.state = CaseState::kRegression;
  std::vector<Dropped> dropped;
  EXPECT_THAT(Paths(DropDuplicates(cases, &dropped)), ElementsAre("b"));
  cases[0].stays = true;
  EXPECT_THAT(Paths(DropDuplicates(cases, &dropped)), ElementsAre("a"));
}

// Fails for a result that depends on the order of the folders, or on the order of reading them.
TEST(Merge, TheOrderDoesNotMatter) {
  std::vector<MergeCase> cases;
  for (int i = 0; i < 40; ++i) {
    cases.push_back(Make("p" + std::to_string(i), static_cast<float>(2 + i % 16), 1 + i % 3));
    if (i % 7 == 0) cases.back().c.drawn_by = std::to_string(i);
    if (i % 11 == 0) cases.back().c.state = CaseState::kRegression;
  }
  const auto merged = [](std::vector<MergeCase> some) {
    std::vector<Dropped> dropped;
    some = SelectCases(DropDuplicates(std::move(some), &dropped), 2, &dropped);
    std::vector<std::vector<std::byte>> bytes;
    for (const MergeCase& m : some) bytes.push_back(StoredBytes(m.c));
    return bytes;
  };
  const auto reference = merged(cases);
  EXPECT_GE(reference.size(), 6U);
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::shuffle(cases.begin(), cases.end(), random);
    EXPECT_EQ(merged(cases), reference);
  }
}

// Fails for a bucket that keeps its largest, counts another target's, or drops a regression or a case
// that stays.
TEST(Merge, OfABucketTheSmallestStay) {
  std::vector<MergeCase> cases;
  for (int i = 0; i < 4; ++i) cases.push_back(Make("p" + std::to_string(i), static_cast<float>(3 + i)));
  cases[0].c.drawn_by = std::string(100, 'w');  // the largest file
  std::vector<Dropped> dropped;
  EXPECT_THAT(Paths(SelectCases(cases, 3, &dropped)), UnorderedElementsAre("p1", "p2", "p3"));
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_THAT(dropped[0].why, HasSubstr("has its 3 smallest"));

  cases[0].c.state = CaseState::kRegression;
  dropped.clear();
  EXPECT_THAT(Paths(SelectCases(cases, 1, &dropped)), ElementsAre("p0"));
  cases[3].stays = cases[2].stays = true;
  EXPECT_THAT(Paths(SelectCases(cases, 1, &dropped)), UnorderedElementsAre("p0", "p2", "p3"));
  cases[0].c.state = CaseState::kConfirmed;
  cases[1].c.target = "mutant:y";
  EXPECT_THAT(Paths(SelectCases(cases, 1, &dropped)), UnorderedElementsAre("p1", "p2", "p3"));
}

// Fails for a cap that is ignored, or under which the second case of one bucket comes before the first
// of another.
TEST(Merge, TheCapsHold) {
  std::vector<MergeCase> cases = {Make("large", 2)};
  cases[0].c.drawn_by = std::string(kMaxCaseBytes, 'w');
  std::vector<Dropped> dropped;
  EXPECT_THAT(SelectCases(cases, 3, &dropped), IsEmpty());
  EXPECT_THAT(dropped[0].why, HasSubstr("a case has at most 65536"));

  // 100 buckets (by target) of two files of about 60 000 bytes: room for 87 files.
  cases.clear();
  for (int i = 0; i < 200; ++i) {
    cases.push_back(Make(std::to_string(i), static_cast<float>(2 + i)));
    cases.back().c.drawn_by = std::string(59'000, 'w');
    cases.back().c.target = "mutant:" + std::to_string(i % 100);
  }
  dropped.clear();
  const std::vector<MergeCase> kept = SelectCases(cases, 2, &dropped);
  int64_t bytes = 0;
  std::set<std::string> targets;
  for (const MergeCase& m : kept) {
    bytes += static_cast<int64_t>(StoredBytes(m.c).size());
    targets.insert(m.c.target);
  }
  EXPECT_LE(bytes, kMaxCorpusBytes);
  EXPECT_GT(bytes, kMaxCorpusBytes - 64 * 1024) << "room was left";
  EXPECT_EQ(targets.size(), kept.size()) << "a second case before the first of all";
  EXPECT_EQ(kept.size() + dropped.size(), cases.size());
}

}  // namespace
}  // namespace plumbline::fuzz
