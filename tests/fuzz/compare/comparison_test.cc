// SPDX-License-Identifier: Apache-2.0
#include "fuzz/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fuzz/base/json.h"
#include "fuzz/compare/accuracy.h"
#include "fuzz/infer/infer.h"
#include "fuzz/recipe/ordinary.h"

namespace plumbline::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AccuracyOptions Options(int64_t problems) {
  AccuracyOptions options;
  options.yardstick = kUndeclared;
  options.problems = problems;
  options.seed = 5;
  options.case_timeout = std::chrono::minutes(10);
  options.program = PLUMB_PROGRAM;
  return options;
}

const OutputAccuracy& Of(const Accuracy& accuracy, std::string_view output) {
  const auto found = std::ranges::find(accuracy.outputs, output, &OutputAccuracy::output);
  if (found == accuracy.outputs.end()) throw std::runtime_error("no " + std::string(output));
  return *found;
}

// Fails if a problem is none that the second tier compares, if two are the same, or if one seed's
// problems are another's.
TEST(Accuracy, ProblemsAreOrdinaryAndOfTheirSeed) {
  std::set<std::string> lines;
  for (const Recipe& recipe : AccuracyProblems(36, 5)) {
    EXPECT_TRUE(IsOrdinary(recipe)) << Format(recipe);
    EXPECT_TRUE(lines.insert(Format(recipe)).second) << Format(recipe);
  }
  EXPECT_FALSE(lines.contains(Format(AccuracyProblems(1, 6).front())));
}

// Fails if an honest kernel is far off, if logits in bf16 are not some thousand times farther, if the
// contract that the target has by its name takes the yardstick's place, or if rows are not counted.
TEST(Accuracy, OfRoundedLogitsIsFarFromAnHonestKernels) {
  const std::atomic<bool> interrupt{false};
  const Accuracy honest = MeasureAccuracy("host", Options(2), interrupt);
  const Accuracy rounded =
      MeasureAccuracy("mutant:logits-rounded@tensor-core-fp32,logits=bf16", Options(2), interrupt);
  EXPECT_EQ(honest.incomplete, "");
  EXPECT_EQ(honest.judged, 2);
  EXPECT_EQ(honest.changed, 0);
  EXPECT_GT(honest.seconds, 0);
  EXPECT_EQ(honest.outputs.size(), 5U);
  EXPECT_EQ(Of(honest, "lse").units, 128);
  EXPECT_LT(Of(honest, "lse").p99, 8);
  EXPECT_EQ(Of(honest, "grad_weight").problems, 2);
  EXPECT_GT(Of(rounded, "lse").typical, 300 * Of(honest, "lse").typical);
  EXPECT_GT(Of(rounded, "grad_hidden").p99, 100);
}

// Fails if a target that does not load is measured, or not said to be none.
TEST(Accuracy, OfNoTargetIsIncomplete) {
  const std::atomic<bool> interrupt{false};
  const Accuracy none = MeasureAccuracy("plugin:/nowhere.so", Options(2), interrupt);
  EXPECT_THAT(none.incomplete, HasSubstr("/nowhere.so"));
  EXPECT_EQ(none.judged, 0);
}

CampaignSummary Hunted() {
  CampaignSummary summary;
  summary.status = ExitStatus::kFindings;
  summary.options.targets = {"mutant:x@hopper"};
  summary.options.capabilities = {R"({"deterministic":false,"hidden_multiple":16})"};
  Tally tally;
  tally.cases = 12;
  tally.pass = 7;
  tally.fail = 2;
  tally.skipped = 3;
  tally.skip_reasons = {{"H = N", 1}, {"V = N", 2}};
  summary.targets.emplace_back("mutant:x@hopper", tally);
  RankedFinding finding;
  finding.sighting.signature = "bound:lse";
  finding.sighting.finding.what = "lse[0] is off";
  finding.sighting.kept.emplace().file = "findings/a.safetensors";
  finding.sighting.kept->finding.what = "lse[0] = 1";
  finding.shortcut = "logits rounded to bf16";
  summary.ranking = {finding};
  Sighting other;
  other.finding.kind = FindingKind::kBatchVariant;
  summary.parts = {other};
  return summary;
}

// Fails if a finding, its case or what explains it is lost; if a part of a finding that shows another
// kind of failure is not counted; if what a target does not promise is called kept; or if reasons are
// not in order.
TEST(TargetComparison, OfACampaign) {
  const ComparedTarget of = OfCampaign("mutant:x", Hunted());
  EXPECT_EQ(of.target, "mutant:x");
  EXPECT_EQ(of.held_to, "hopper");
  EXPECT_EQ(of.verdict, "findings");
  EXPECT_EQ(of.judged, 9);
  ASSERT_EQ(of.findings.size(), 1U);
  EXPECT_EQ(of.findings.front().what, "lse[0] = 1");
  EXPECT_EQ(of.findings.front().file, of.folder + "/findings/a.safetensors");
  EXPECT_EQ(of.findings.front().shortcut, "logits rounded to bf16");
  EXPECT_EQ(of.batch_invariant, Holding::kNo);
  EXPECT_EQ(of.deterministic, Holding::kNotChecked);
  EXPECT_EQ(of.special_rows, Holding::kYes);
  EXPECT_THAT(of.limits, ElementsAre("deterministic false", "hidden_multiple 16"));
  ASSERT_EQ(of.skipped.size(), 2U);
  EXPECT_EQ(of.skipped.front().reason, "V = N");
}

// Fails if a finding without a file has the folder's name, if a case seen while another was shrunk is
// lost, if a campaign without a judged case keeps anything, or if why one ended early is not said.
TEST(TargetComparison, OfWhatIsNoWholeCampaign) {
  CampaignSummary summary = Hunted();
  summary.error = "the disk is full";
  summary.ranking.front().sighting.kept->file.clear();
  summary.wrong_slips = {"slips/b.safetensors"};
  summary.targets.front().second = Tally();
  summary.parts.clear();
  const ComparedTarget of = OfCampaign("mutant:x", summary);
  ASSERT_EQ(of.findings.size(), 2U);
  EXPECT_EQ(of.findings.front().file, "");
  EXPECT_THAT(of.findings.back().what, HasSubstr("slips/b.safetensors"));
  EXPECT_EQ(of.special_rows, Holding::kNotChecked);
  EXPECT_EQ(of.batch_invariant, Holding::kNotChecked);
  EXPECT_EQ(of.error, "the disk is full");
}

// Fails if a folder is that of another target, or outside of the comparison's.
TEST(TargetComparison, EachTargetHasAFolder) {
  std::set<std::string> folders;
  for (const char* target :
       {"a:b", "a/b", "a-b", "plugin:a/b.so", "plugin:a-b.so", "..", ".", "", "comparison.json"}) {
    const std::string folder = FolderOfTarget(target);
    EXPECT_TRUE(folders.insert(folder).second) << target;
    EXPECT_EQ(folder.find_first_of("/.:"), std::string::npos) << folder;
  }
}

TargetComparison WithOne() {
  TargetComparison comparison;
  comparison.plumb = "0.1.0";
  comparison.seed = ~uint64_t{0};
  comparison.cases = 12;
  comparison.problems = 2;
  comparison.yardstick = kUndeclared;
  comparison.infer = "python";
  comparison.targets = {OfCampaign("mutant:x", Hunted())};
  return comparison;
}

// Fails if a field is lost on the way to the file and back, or if targets of other cases are taken for
// those of the same.
TEST(TargetComparison, IsReadBack) {
  TargetComparison comparison = WithOne();
  ComparedTarget& target = comparison.targets.front();
  target.shortcuts = {"logits rounded to bf16"};
  target.error = "nothing was inferred: it hangs";
  OutputAccuracy& lse = target.accuracy.outputs.emplace_back();
  lse.output = "lse";
  lse.units = 9;
  lse.dropped = 1;
  lse.p99 = std::numeric_limits<double>::infinity();
  target.accuracy.skipped = {{"H = N", 1}};
  target.accuracy.failed = {{"crash: it died", 1}};
  std::string error;
  auto read = FromJson<TargetComparison>(ToJson(comparison), "comparison", &error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(ToJson(*read), ToJson(comparison));
  EXPECT_TRUE(read->SameCases(comparison));
  EXPECT_NE(read->Find("mutant:x"), nullptr);
  EXPECT_EQ(read->Find("mutant:y"), nullptr);
  for (const auto change :
       {+[](TargetComparison* c) { ++c->seed; }, +[](TargetComparison* c) { ++c->cases; },
        +[](TargetComparison* c) { ++c->problems; }, +[](TargetComparison* c) { ++c->palette; },
        +[](TargetComparison* c) { c->infer = "none"; },
        +[](TargetComparison* c) { c->plumb = "0.2.0"; },
        +[](TargetComparison* c) { c->yardstick = "fp32"; },
        +[](TargetComparison* c) { c->contract = "fp32"; }}) {
    TargetComparison changed = comparison;
    change(&changed);
    EXPECT_FALSE(changed.SameCases(comparison));
  }
}

// Fails if a shortcut, a failure on a problem, problems that were not run or a target that is not there
// leaves the status clean, or if what is to be done again counts as complete.
TEST(TargetComparison, ItsStatusIsTheGravest) {
  TargetComparison comparison;
  ComparedTarget& one = comparison.targets.emplace_back();
  one.verdict = "clean";
  EXPECT_EQ(StatusOf(comparison), ExitStatus::kClean);
  EXPECT_TRUE(one.Complete());
  one.shortcuts = {"logits rounded to bf16"};
  EXPECT_EQ(StatusOf(comparison), ExitStatus::kFindings);
  one.shortcuts.clear();
  one.accuracy.failed = {{"crash: it died", 2}};
  EXPECT_EQ(StatusOf(comparison), ExitStatus::kFindings);
  one.accuracy.failed.clear();
  one.accuracy.incomplete = "it does not load";
  EXPECT_EQ(StatusOf(comparison), ExitStatus::kThin);
  EXPECT_FALSE(one.Complete());
  one.accuracy.incomplete.clear();
  one.verdict = "unavailable";
  EXPECT_EQ(StatusOf(comparison), ExitStatus::kUnavailable);
  EXPECT_FALSE(one.Complete());
}

}  // namespace
}  // namespace plumbline::fuzz
