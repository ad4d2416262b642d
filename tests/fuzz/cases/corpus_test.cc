// SPDX-License-Identifier: Apache-2.0
//
// Replays the corpus: every stored case still fails on the target it was found on, with the signature
// it was stored with, and passes on `host`. Fails for a defect that comes back in `host`; a harness
// change that no longer finds what it once found; a case file that went stale.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/cases/name.h"
#include "fuzz/examine/examine.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "fuzz/triage/pursuit.h"

namespace plumbline::fuzz {
namespace {

const std::filesystem::path kCorpus = std::filesystem::path(PLUMBLINE_SOURCE_DIR) / "corpus";

// public/ holds cases of kernels that this tree does not have (corpus/README.md).
std::vector<std::filesystem::path> CorpusFiles() {
  std::vector<std::filesystem::path> files = ListCases(kCorpus).files;
  std::erase_if(files, [](const auto& file) {
    return file.lexically_relative(kCorpus).string().starts_with("public/");
  });
  return files;
}

CaseResult On(const std::string& name, const Case& c) {
  std::string error;
  const auto target = LoadTarget(name, &error);
  if (!target) throw std::runtime_error(error);
  ExamineOptions options;
  options.seed = SeedOf(c);  // which row is run alone
  return Examine(c.problem, *target, options);
}

class Corpus : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(Corpus, FailsOnItsMutantAndPassesOnHost) {
  std::string error;
  const auto stored = ReadCase(GetParam(), &error);
  ASSERT_TRUE(stored) << error;
  EXPECT_EQ(GetParam().filename().string(), CaseFileName(*stored));
  EXPECT_NE(stored->bucket.id, "") << "plumb merge corpus --out corpus tells it";
  EXPECT_LE(static_cast<int64_t>(std::filesystem::file_size(GetParam())), kMaxCaseBytes);
  // A mutant's defect stays.
  if (stored->target.starts_with("mutant:")) {
    EXPECT_EQ(stored->state, CaseState::kConfirmed) << "plumb replay corpus --update";
  }

  const CaseResult on_host = On("host", *stored);
  EXPECT_EQ(on_host.verdict, oracle::Verdict::kPass);
  EXPECT_EQ(on_host.harness_fault, "");

  const CaseResult on_target = On(stored->target, *stored);
  EXPECT_EQ(on_target.harness_fault, "");
  EXPECT_TRUE(std::any_of(on_target.findings.begin(), on_target.findings.end(), [&](const Finding& f) {
    return f.Signature() == stored->finding.Signature();
  })) << stored->finding.Signature();
}

INSTANTIATE_TEST_SUITE_P(Files, Corpus, ::testing::ValuesIn(CorpusFiles()), [](const auto& file) {
  std::string name = file.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
});

// Fails for a corpus that grows until nobody reads it, and a file in it that is not one of its cases.
TEST(CorpusFolder, StaysWithinItsCap) {
  EXPECT_THAT(ListCases(kCorpus).unreadable, ::testing::IsEmpty());
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kCorpus)) {
    const std::string name = entry.path().lexically_relative(kCorpus).string();
    if (!entry.is_regular_file() || name.starts_with("real/") || name.starts_with("public/")) continue;
    EXPECT_TRUE(name == "README.md" || name.ends_with(".safetensors")) << name;
    bytes += static_cast<int64_t>(entry.file_size());
  }
  EXPECT_LE(bytes, kMaxCorpusBytes);
}

// Fails for a shrinker that leaves more than it must. A few cases need several tiles of 64 columns, or
// more.
TEST(CorpusFolder, HalfOfTheCasesHave64ValuesAtMost) {
  std::vector<int64_t> values;
  for (const auto& path : CorpusFiles()) {
    std::string error;
    const auto stored = ReadCase(path, &error);
    ASSERT_TRUE(stored) << error;
    values.push_back(ValueCount(stored->problem));
  }
  ASSERT_FALSE(values.empty());
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  EXPECT_LE(values[values.size() / 2], 64);
}

// Fails for a mutant without a case, a corpus folder that was not found.
TEST(CorpusFolder, HoldsACaseOfEveryMutant) {
  std::set<std::string> covered;
  std::vector<int64_t> sizes;
  for (const auto& path : CorpusFiles()) {
    std::string error;
    const auto stored = ReadCase(path, &error);
    ASSERT_TRUE(stored) << error;
    covered.insert(stored->target);
    sizes.push_back(ValueCount(stored->problem));
  }
  // A few need more: an error between tiles needs one tile and a column.
  std::sort(sizes.begin(), sizes.end());
  EXPECT_LE(sizes[sizes.size() / 2], 64);
  // Their cases need a stride beyond 2^31 elements, and a vocabulary that no small file holds.
  const std::set<std::string> too_large = {"mutant:row-offset-32", "mutant:large-vocab-unmerged"};
  for (const BuiltIn& target : BuiltInTargets()) {
    if (target.name.starts_with("mutant:") && !too_large.contains(target.name)) {
      EXPECT_TRUE(covered.contains(target.name)) << target.name;
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz
