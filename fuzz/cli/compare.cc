// SPDX-License-Identifier: Apache-2.0
//
// Gives targets the same cases and prints them side by side: fuzz/compare/COMPARE.md.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fuzz/base/record_file.h"
#include "fuzz/base/version.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/search/palette.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/compare_text.h"
#include "fuzz/cli/infer_contracts.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/compare/accuracy.h"
#include "fuzz/compare/comparison.h"
#include "fuzz/infer/infer.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int64_t kMostCompared = 1'000'000, kMostProblems = 100'000;
constexpr uint64_t kMostComparison = uint64_t{64} << 20;  // of comparison.json
// As a gate's. Shrinking alone is limited by time: it does not change which cases are compared.
constexpr milliseconds kCaseDeadline{120'000}, kCompileDeadline{300'000};
constexpr milliseconds kSayEvery{10'000};

struct CompareCommand {
  std::vector<std::string> targets;
  std::string contract, yardstick{kUndeclared};
  uint64_t seed = 1;
  int64_t cases = 1'000, problems = 24, palette = 0;
  int jobs = 0;
  std::optional<bool> infer;
  fs::path out = "plumb-comparison";
};

class CompareRun {
 public:
  CompareRun(const CompareCommand& command, const Console& console)
      : command_(command), console_(console) {}

  ExitStatus Run();

 private:
  // These return false, with error_, if the comparison cannot begin.
  bool Check();
  bool TakeEarlier();
  bool Store();
  ComparedTarget CompareOne(const std::string& target);
  CampaignSummary Hunt(const std::string& target, const fs::path& folder);
  bool interrupted() const { return console_.interrupt->load(); }

  const CompareCommand& command_;
  const Console& console_;
  TargetComparison comparison_, earlier_;
  ExitStatus status_ = ExitStatus::kUsage;  // where there is an error_
  std::string error_;
};

// "python:module:function" as a folder's name.
std::string CampaignFolder(const std::string& target) {
  std::string folder = target;
  std::ranges::replace_if(
      folder, [](char c) { return c == ':' || c == '/' || c == '@' || c == '+'; }, '-');
  return folder;
}

bool CompareRun::Check() {
  for (size_t i = 0; i < command_.targets.size(); ++i) {
    const std::string& target = command_.targets[i];
    if (std::ranges::count(command_.targets, target) > 1) {
      error_ = "target " + target + " is given twice";
    } else if (!command_.contract.empty() && !SplitTarget(target).second.empty()) {
      error_ = "--contract: target " + target + " has one already";
    }
    if (!error_.empty()) return false;
  }
  if (command_.targets.size() < 2) error_ = "two targets or more are compared; one is given";
  return error_.empty();
}

bool CompareRun::TakeEarlier() {
  comparison_.plumb = kVersion;
  comparison_.seed = command_.seed;
  comparison_.cases = command_.cases;
  comparison_.problems = command_.problems;
  comparison_.contract = command_.contract;
  comparison_.yardstick = command_.yardstick;
  const fs::path file = command_.out / kComparisonName;
  std::error_code code;
  if (!fs::exists(command_.out, code) || fs::is_empty(command_.out, code)) return true;
  if (!fs::exists(file, code)) {
    error_ = "--out: " + command_.out.string() + " holds no comparison, and is not empty";
    return false;
  }
  const auto read = ReadRecord<TargetComparison>(file, kMostComparison, "comparison", &error_);
  if (!read) return false;
  if (!read->SameCases(comparison_)) {
    error_ = "--out: " + command_.out.string() +
             " holds a comparison by other cases, contracts or another version";
    return false;
  }
  earlier_ = *read;
  return true;
}

bool CompareRun::Store() {
  std::error_code code;
  fs::create_directories(command_.out, code);
  const std::string text = ToJson(comparison_).Dump(1) + "\n";
  if (WriteWhole(command_.out / kComparisonName, std::as_bytes(std::span(text)), &error_)) return true;
  status_ = ExitStatus::kFault;
  return false;
}

CampaignSummary CompareRun::Hunt(const std::string& target, const fs::path& folder) {
  CampaignOptions options;
  options.targets = {HeldTo(target, command_.contract)};
  options.seed = command_.seed;
  options.budget = Budget{.time = milliseconds(0), .cases = command_.cases};
  options.palette = command_.palette;
  options.gate = true;
  options.case_timeout = kCaseDeadline;
  options.first_call_timeout = kCompileDeadline;
  options.jobs = command_.jobs;
  options.program = console_.worker_program;
  options.out = folder;
  CampaignSummary none;
  none.error = WhyNoTarget(options.targets.front());
  none.status = none.error.empty() ? InferContracts(command_.infer, console_, &options, &none.error)
                                   : ExitStatus::kUnavailable;
  if (none.status != ExitStatus::kClean) {
    none.options = options;
    return none;
  }
  Campaign campaign(options, *console_.interrupt);
  std::vector<CampaignEvent> events;
  milliseconds next = kSayEvery;
  while (campaign.Next(milliseconds(200), &events)) {
    for (const CampaignEvent& event : events) {
      if (event.kind == CampaignEvent::Kind::kFault) {
        console_.Say("FAULT OF THE HARNESS: " + event.text + "\n  see " + event.file.string() + "\n");
      }
    }
    if (!events.empty()) continue;
    const Progress progress = campaign.GetProgress();
    if (progress.elapsed < next) continue;
    console_.Say(StatusLine(progress) + "\n");
    next = progress.elapsed + kSayEvery;
  }
  return campaign.Finish();
}

ComparedTarget CompareRun::CompareOne(const std::string& target) {
  const std::string folder = CampaignFolder(target);
  std::error_code ignored;
  fs::remove_all(command_.out / folder, ignored);  // of a comparison that was cut off
  console_.Say("plumb: " + target + ": " + std::to_string(command_.cases) + " cases of seed " +
               std::to_string(command_.seed) + "\n");
  ComparedTarget of = OfCampaign(target, Hunt(target, command_.out / folder), folder);
  if (!of.unavailable.empty() || interrupted()) return of;
  AccuracyOptions options;
  options.yardstick = command_.yardstick;
  options.problems = command_.problems;
  options.seed = command_.seed;
  options.case_timeout = kCaseDeadline;
  if (command_.palette > 0) options.first_call_timeout = kCompileDeadline;
  options.program = console_.worker_program;
  console_.Say("plumb: " + target + ": its errors on " + std::to_string(command_.problems) +
               " problems of a model's values\n");
  of.accuracy = MeasureAccuracy(target, options, *console_.interrupt);
  return of;
}

ExitStatus CompareRun::Run() {
  if (!Check() || !TakeEarlier()) {
    console_.Complain(error_);
    return console_.Finish(status_);
  }
  for (const std::string& target : command_.targets) {
    if (const ComparedTarget* known = earlier_.Find(target); known && known->unavailable.empty()) {
      console_.Say("plumb: " + target + " was compared before\n");
      comparison_.targets.push_back(*known);
      continue;
    }
    ComparedTarget of = CompareOne(target);
    if (interrupted()) return console_.Finish(ExitStatus::kInterrupted);
    comparison_.targets.push_back(std::move(of));
    if (!Store()) {
      console_.Complain(error_);
      return console_.Finish(status_);
    }
  }
  if (!Store()) {
    console_.Complain(error_);
    return console_.Finish(status_);
  }
  console_.Say(ComparisonText(comparison_, command_.out.string(), console_.program));
  console_.Say("everything lies in " + command_.out.string() + "\n");
  Counts counts;
  for (const ComparedTarget& target : comparison_.targets) {
    counts.cases += target.cases;
    counts.judged += target.judged;
    counts.findings += static_cast<int64_t>(target.findings.size());
  }
  return console_.Finish(StatusOf(comparison_), counts, ToJson(comparison_));
}

}  // namespace

void AddCompare(CommandLine* line) {
  auto options = std::make_shared<CompareCommand>();
  CLI::App* sub = line->Add("compare", "Give targets the same cases and set them side by side",
                            "plumb compare host plugin:./my_kernel.so --out comparison",
                            [=] { return CompareRun(*options, line->console).Run(); });
  sub->add_option("targets", options->targets,
                  "two targets or more, as `plumb fuzz --target` takes them")
      ->required();
  AddContract(sub, &options->contract);
  AddContract(sub, "--yardstick",
              "the contract whose honest kernels' errors are the unit, as --contract takes it "
              "[tensor-core-fp32]",
              &options->yardstick);
  AddPython(sub);
  sub->add_flag_function(
      "--infer,!--no-infer", [=](int64_t count) { options->infer = count > 0; },

      "infer what targets that declare no contract round [of Python targets]");
  sub->add_option("--cases", options->cases, "cases of each target [1000]")
      ->check(CLI::Range(int64_t{0}, kMostCompared));
  sub->add_option("--problems", options->problems, "problems by which errors are compared [24]")
      ->check(CLI::Range(int64_t{0}, kMostProblems));
  AddParsed(sub, "--seed", &options->seed, ParseSeed, "of both, decimal or 0x hexadecimal [1]");
  sub->add_option("--palette", options->palette,
                  "shapes of the cases, for targets that compile for each; 0: any [0]")
      ->check(CLI::Range(int64_t{0}, kMostPalette));
  sub->add_option("--jobs", options->jobs, "cases at the same time [one a hardware thread]")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--out", options->out,
                  "folder of the results; where it holds a part of the same comparison, the rest is "
                  "done [plumb-comparison]");
}

}  // namespace plumbline::fuzz
