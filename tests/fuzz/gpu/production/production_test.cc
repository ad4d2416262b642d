// SPDX-License-Identifier: Apache-2.0
//
// Cases of production size: the draws, the campaign, and the program from outside, on a device if there
// is one.

#include "fuzz/gpu/production/recipe.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/target/target.h"
#include "oracle/cuda/device_oracle.h"
#include "tests/fuzz/support/located.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Outcome;

// Fails if a draw does not depend on its seed and index alone, cannot be expanded on a device, changes
// when written as a line and read back, or costs more than a case may; or if sizes, dtypes, layouts or
// kinds of values are left out, V * H and N * V beyond 2^31 among them.
TEST(Production, DrawsAreCheapEnoughAndOfEveryKind) {
  std::set<kernel::DType> dtypes;
  std::set<Values> values;
  std::set<Labels> labels;
  int beyond_weight = 0, beyond_logits = 0, odd_vocab = 0, odd_hidden = 0, hidden_major = 0, padded = 0,
      reduced = 0, large = 0;
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
    beyond_weight += r.v * r.h > int64_t{1} << 31 ? 1 : 0;
    beyond_logits += r.n * r.v > int64_t{1} << 31 ? 1 : 0;
  }
  EXPECT_EQ(dtypes.size(), 3u);
  EXPECT_EQ(values.size(), 8u);
  EXPECT_GE(labels.size(), 10u);
  for (const int seen : {odd_vocab, odd_hidden, hidden_major, padded, reduced}) EXPECT_GT(seen, 30);
  EXPECT_GT(large, 5);
  EXPECT_GE(beyond_weight, 15);
  EXPECT_GE(beyond_logits, 15);
  const Recipe first = DrawProduction(9, 0);
  EXPECT_EQ(std::tuple(first.n, first.h, first.v), std::tuple(8192, 4096, 151'936));
  EXPECT_NE(DrawProduction(7, 1), DrawProduction(8, 1));
}

// Fails if a case of the campaign is not the next draw of production size, or if a recipe that only a
// device can hold is refused there, or taken elsewhere.
TEST(Production, TheCampaignHasTheseDrawsAlone) {
  CampaignOptions options;
  options.targets = {"cuda"};
  options.seed = 7;
  options.production = true;
  const Plan plan(options, {});
  for (const int64_t index : {0, 1, 513, 2000}) {
    const Plan::Place place = plan.At(index);
    EXPECT_EQ(place.phase, Phase::kSearch);
    EXPECT_FALSE(place.guided);
    EXPECT_EQ(plan.Blind(place.number), DrawProduction(7, index));
  }
  options.recipe = "v1 seed=1 n=8192 v=262144 h=4096 dtype=bf16 values=gaussian";
  EXPECT_EQ(Objection(options), "");
  EXPECT_EQ(Plan(options, {}).Blind(0).v, 262144);
  options.production = false;
  EXPECT_THAT(Objection(options), HasSubstr("recipe"));
  options.production = true;
  options.recipe = "v1 seed=1 n=8 v=9 h=10 values=swallow";
  EXPECT_THAT(Objection(options), HasSubstr("values=swallow"));
}

// Fails if the first line of a journal forgets that the cases are of production size, or says anything
// else of campaigns that are not.
TEST(Production, TheJournalKeepsTheKindOfCampaign) {
  CampaignOptions options;
  options.targets = {"cuda"};
  EXPECT_EQ(ToJson(options).Find("production"), nullptr);
  std::string error;
  EXPECT_FALSE(FromJson<CampaignOptions>(ToJson(options), "campaign", &error)->production);
  options.production = true;
  const auto read = FromJson<CampaignOptions>(ToJson(options), "campaign", &error);
  ASSERT_TRUE(read) << error;
  EXPECT_TRUE(read->production);
  EXPECT_EQ(read->GetCaseTimeout(), std::chrono::seconds(120));
}

// The supervisor's side without a device: the worker judges the recipe on the CPU. Fails if a finding
// is shrunk, written to a file or not kept at all, if the line that reproduces it is another command's,
// if it is lost when the campaign is resumed, or if a resumed campaign is of another kind.
TEST(Production, AFindingIsKeptAsItsRecipe) {
  const testing::Workplace work;
  const std::filesystem::path program = work / "worker";
  std::ofstream(program) << "#!/bin/sh\nfor word; do shift\n"
                            "[ \"$word\" = --production ] || set -- \"$@\" \"$word\"\n"
                            "done\nexec '"
                         << PLUMB_PROGRAM << "' \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  CampaignOptions options;
  options.targets = {"mutant:label-off-by-one"};
  options.recipe = "v1 regime=production seed=3 n=5 v=301 h=29 values=gaussian exp=1 labels=random";
  options.production = true;
  options.out = work / "out";
  options.program = program;
  options.case_timeout = std::chrono::minutes(10);
  const std::atomic<bool> interrupt{false};
  std::string text;
  CampaignSummary summary;
  {
    Campaign campaign(options, interrupt);
    std::vector<CampaignEvent> events;
    while (campaign.Next(std::chrono::milliseconds(100), &events)) {
      for (const CampaignEvent& event : events) {
        if (event.kind != CampaignEvent::Kind::kStored) continue;
        text += FindingBlock(event.finding, 1, WhyOf(event.sighting.regime), "plumb", "out", true);
      }
    }
    EXPECT_TRUE(campaign.options().production);
    summary = campaign.Finish();
  }
  EXPECT_EQ(summary.status, ExitStatus::kFindings) << summary.error;
  ASSERT_FALSE(summary.sightings.empty());
  for (const Sighting& sighting : summary.sightings) {
    ASSERT_TRUE(sighting.kept);
    EXPECT_EQ(sighting.kept->file, "");
    EXPECT_THAT(sighting.kept->note, HasSubstr("recipe"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(work / "out/findings"));
  EXPECT_THAT(text, HasSubstr("plumb fuzz --production --target mutant:label-off-by-one --recipe "
                              "'v1 regime=production"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("shrunk   ")));
  const size_t found = summary.sightings.size();
  options.resume = true;
  options.production = false;
  // What prints a resumed campaign's findings asks the campaign what kind it is.
  EXPECT_TRUE(Campaign(options, interrupt).options().production);
  summary = RunCampaign(options, interrupt);
  EXPECT_EQ(summary.sightings.size(), found);
  EXPECT_TRUE(summary.options.production);
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
  EXPECT_THAT(Err(), AnyOf(HasSubstr("runs on the CPU"), HasSubstr("this build has no CUDA")));
}

// Fails if a folder with another campaign is taken for one that could go on, or if the format of a
// journal of an earlier version is not named.
TEST_F(ProductionProgram, OtherFoldersAreRefused) {
  std::filesystem::create_directory(work_ / "old");
  std::ofstream(work_ / "old/journal.jsonl") << "{\"journal\":\"plumb-production-1\",\"seed\":\"1\"}\n";
  for (const char* command :
       {"fuzz --resume old", "fuzz --production --target cuda --seed 1 --out old"}) {
    EXPECT_EQ(Run(command).status, 2);
    EXPECT_THAT(Err(), HasSubstr("plumb-production-1"));
  }
  ASSERT_EQ(Run("fuzz --target host --budget 1cases --seed 1 --out small").status, 0);
  EXPECT_EQ(Run("fuzz --production --target host --seed 1 --out small").status, 2);
  EXPECT_THAT(Err(), HasSubstr("another kind"));
  EXPECT_EQ(Run("fuzz --production --resume small").status, 2);
  EXPECT_THAT(Err(), HasSubstr("no campaign of cases of production size"));
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
  EXPECT_EQ(o.last, "plumb: verdict=clean cases=2 judged=2 findings=0 status=0");
  o = Run("fuzz --production --target cuda-portable --budget 3cases --seed 11 --out campaign --json");
  EXPECT_EQ(o.status, 0) << o.out << Err();
  EXPECT_THAT(o.last, HasSubstr("\"cases\":3"));
  std::string error;
  const auto summary = Json::Parse(testing::Slurp(work_ / "campaign/summary.json"), &error);
  ASSERT_TRUE(summary) << error;
  EXPECT_NE(summary->Find("targets"), nullptr);
  EXPECT_THAT(o.last, HasSubstr("\"device\":"));
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
      EXPECT_THAT(o.out, HasSubstr("fuzz --production --target " + target.name + " --recipe"));
    }
  }
}

#ifdef PLUMB_CUDA_PLUGIN
// Fails if a target's misbehaviour is missed, is reported without words, or ends the campaign.
TEST_F(GpuProductionProgram, BadDeedsAreFoundAndSurvived) {
  const std::pair<const char*, const char*> deeds[] = {{"nothing", ""},
                                                       {"illegal-address", "illegal memory access"},
                                                       {"endless", "no answer within"},
                                                       {"write-outside", "no element's were written"},
                                                       {"write-input", "inputs were written"},
                                                       {"bad-launch", "seen bound:"}};
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
