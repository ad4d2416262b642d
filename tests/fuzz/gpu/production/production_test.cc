// SPDX-License-Identifier: Apache-2.0
//
// Cases of production size: the draws, the journal, and the program from outside, on a device if there
// is one.

#include "fuzz/builtin/catalogue.h"
#include "fuzz/gpu/production/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "fuzz/gpu/production/recipe.h"
#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/target/target.h"
#include "oracle/cuda/device_oracle.h"
#include "tests/fuzz/support/located.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

// Fails if a draw does not depend on its seed and index alone, cannot be expanded on a device, changes
// when written as a line and read back, or costs more than a case may; or if sizes, dtypes, layouts or
// kinds of values are left out.
TEST(Production, DrawsAreCheapEnoughAndOfEveryKind) {
  std::set<kernel::DType> dtypes;
  std::set<Values> values;
  std::set<Labels> labels;
  int odd_vocab = 0, odd_hidden = 0, hidden_major = 0, padded = 0, reduced = 0, large = 0;
  for (int64_t index = 0; index < 300; ++index) {
    const Recipe r = DrawProduction(7, index);
    EXPECT_EQ(r, DrawProduction(7, index));
    EXPECT_EQ(WhyNotOnDevice(r), "") << Format(r);
    Recipe parsed;
    std::string error;
    ASSERT_TRUE(Parse(Format(r), &parsed, &error, kMaxDeviceElements)) << error;
    EXPECT_EQ(parsed, r);
    const double cost = static_cast<double>(r.n) * static_cast<double>(r.v) * static_cast<double>(r.h);
    EXPECT_LE(cost, index % 10 == 0                  ? kLargestCost
                    : r.dtype == kernel::DType::kF32 ? kProductionCostFp32
                                                     : kProductionCost)
        << Format(r);
    EXPECT_GE(r.v, 32'000);
    dtypes.insert(r.dtype);
    values.insert(r.values);
    labels.insert(r.labels);
    odd_vocab += r.v % 8 != 0 ? 1 : 0;
    odd_hidden += r.h % 8 != 0 ? 1 : 0;
    hidden_major += r.hidden_major ? 1 : 0;
    padded += r.pad > 0 ? 1 : 0;
    reduced += r.reduction != kernel::Reduction::kNone ? 1 : 0;
    large += cost > kProductionCost ? 1 : 0;
  }
  EXPECT_EQ(dtypes.size(), 3u);
  EXPECT_EQ(values.size(), 8u);
  EXPECT_GE(labels.size(), 10u);
  for (const int seen : {odd_vocab, odd_hidden, hidden_major, padded, reduced}) EXPECT_GT(seen, 30);
  EXPECT_GT(large, 5);
  const Recipe first = DrawProduction(9, 0);
  EXPECT_EQ(std::tuple(first.n, first.h, first.v), std::tuple(8192, 4096, 151'936));
  EXPECT_NE(DrawProduction(7, 1), DrawProduction(8, 1));
}

// Fails if a torn last line is taken for a whole one or the next line is appended to it, if the case
// that was in progress is not told from a finished one, or if another kind of journal is taken for this
// kind.
TEST(Production, JournalKnowsWhereItsProcessEnded) {
  const testing::Workplace work;
  std::string error;
  const auto line = [&](const char* text) {
    return AppendLine(work.path(), *Json::Parse(text, &error), &error);
  };
  EXPECT_FALSE(IsProductionCampaign(work.path()));
  ASSERT_TRUE(line(R"({"journal":"plumb-production-1","seed":"1"})")) << error;
  EXPECT_TRUE(IsProductionCampaign(work.path()));
  ASSERT_TRUE(line(R"({"event":"begin","case":0,"recipe":"v1"})"));
  ASSERT_TRUE(line(R"({"event":"case","case":0,"recipe":"v1"})"));
  ASSERT_TRUE(line(R"({"event":"begin","case":1,"recipe":"v1 n=2"})"));
  ASSERT_TRUE(line(R"({"event":"stage","case":1,"stage":"cuda"})"));
  std::ofstream(work / "journal.jsonl", std::ios::app) << R"({"event":"ca)";
  auto journal = ReadProductionJournal(work.path(), &error);
  ASSERT_TRUE(journal) << error;
  EXPECT_EQ(journal->cases.size(), 1u);
  EXPECT_EQ(journal->open_case, 1);
  EXPECT_EQ(journal->open_stage, "cuda");
  EXPECT_EQ(journal->open_recipe, "v1 n=2");
  ASSERT_TRUE(line(R"({"event":"lost","case":1})"));
  journal = ReadProductionJournal(work.path(), &error);
  ASSERT_TRUE(journal) << error;
  EXPECT_FALSE(journal->open_case);
  EXPECT_EQ(journal->next, 2);
  std::ofstream(work / "journal.jsonl", std::ios::app) << "{\"event\":\"dance\",\"case\":1}\n";
  EXPECT_FALSE(ReadProductionJournal(work.path(), &error));
  EXPECT_THAT(error, HasSubstr("journal.jsonl"));
}

class ProductionProgram : public testing::Program {};

// Fails if an impossible request ends as if it had been done.
TEST_F(ProductionProgram, RefusalsHaveTheirStatus) {
  Outcome o = Run("fuzz --production --target cuda --recipe 'v1 n=1 v=x' --out bad");
  EXPECT_EQ(o.status, 2) << o.out;
  o = Run("fuzz --production --target cuda --regime ties --out bad");
  EXPECT_EQ(o.status, 2) << o.out;
  o = Run("fuzz --production --target host --budget 1cases --seed 1 --out host");
  EXPECT_EQ(o.status, 4) << o.out << Err();
  EXPECT_THAT(o.last, HasSubstr("verdict=unavailable"));
}

class GpuProductionProgram : public testing::Program {
 protected:
  void SetUp() override {
    std::string error;
    if (oracle::cuda::DeviceOracle::Open(&error) == nullptr) GTEST_SKIP() << error;
  }
  static constexpr const char* kSmall =
      "'v1 regime=production seed=3 dtype=bf16 n=200 v=3001 h=129 values=gaussian exp=1 "
      "labels=ignored-nan grads=random entropy_grads=random pad=3'";
};

// Fails if a clean target gives a finding, if a campaign cannot be resumed, or if its summary is
// missing.
TEST_F(GpuProductionProgram, CleanAndResumed) {
  Outcome o = Run("fuzz --production --target cuda-portable --budget 2cases --seed 11 --out campaign");
  EXPECT_EQ(o.status, 0) << o.out << Err();
  EXPECT_EQ(o.last, "plumb: verdict=clean cases=2 findings=0 status=0");
  o = Run("fuzz --production --target cuda-portable --budget 3cases --seed 11 --out campaign --json");
  EXPECT_EQ(o.status, 0) << o.out << Err();
  EXPECT_THAT(o.last, HasSubstr("\"cases\":3"));
  std::string error;
  const auto summary = Json::Parse(testing::Slurp(work_ / "campaign/summary.json"), &error);
  ASSERT_TRUE(summary) << error;
  EXPECT_NE(summary->Find("tightness"), nullptr);
  EXPECT_NE(summary->Find("device"), nullptr);
}

// Fails if a target's defect is no finding, or if a finding has no line that reproduces it.
TEST_F(GpuProductionProgram, MutantsAreFound) {
  int mutants = 0;
  for (const BuiltIn& target : BuiltInTargets()) {
    if (!target.name.starts_with("cuda-mutant:") || ++mutants > 3) continue;
    const std::string again = "fuzz --production --target " + target.name + " --recipe " + kSmall;
    const Outcome o = Run(again + " --out " + std::to_string(mutants));
    EXPECT_TRUE(o.status == 0 || o.status == 1) << target.name << " " << o.out << Err();
    if (o.status == 1) {
      EXPECT_THAT(o.out, HasSubstr("FINDING " + target.name));
      EXPECT_THAT(o.out, HasSubstr("--recipe"));
    }
  }
}

#ifdef PLUMB_CUDA_PLUGIN
// Fails if a target's misbehaviour is missed, is reported without words, or ends the campaign.
TEST_F(GpuProductionProgram, BadDeedsAreFoundAndSurvived) {
  const std::pair<const char*, const char*> deeds[] = {{"nothing", ""},
                                                       {"illegal-address", "illegal memory access"},
                                                       {"endless", "hangs"},
                                                       {"write-outside", "no element's were written"},
                                                       {"write-input", "inputs were written"},
                                                       {"bad-launch", "FINDING"}};
  for (const auto& [deed, words] : deeds) {
    const char* const limit = std::string(deed) == "endless" ? " --case-timeout 5s" : "";
    const Outcome o = Run(std::string("fuzz --production --target plugin:") +
                              testing::LocatedProgram(PLUMB_CUDA_PLUGIN) + limit +
                              " --recipe 'v1 seed=1 n=3 v=5 h=3 dtype=fp32' --out " + deed,
                          std::string("PLUMB_DEED=") + deed);
    EXPECT_EQ(o.status, std::string(words).empty() ? 0 : 1) << deed << "\n" << o.out << Err();
    EXPECT_THAT(o.out, HasSubstr(words)) << deed;
  }
}
#endif

}  // namespace
}  // namespace plumbline::fuzz
