// SPDX-License-Identifier: Apache-2.0
//
// Gives targets the same cases and prints them side by side: fuzz/compare/COMPARE.md.
#include <algorithm>
#include <filesystem>
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
#include "fuzz/cli/watched_campaign.h"
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

struct CompareCommand {
  std::vector<std::string> targets;
  std::string contract, yardstick{kUndeclared};
  uint64_t seed = 1;
  int64_t cases = 1'000, problems = 24, palette = 0;
  int jobs = 0;
  milliseconds shrink_time{0};  // of a finding; 0: a campaign's
  std::optional<bool> infer;
  fs::path out = "plumb-comparison";
};

class CompareRun {
 public:
  CompareRun(const CompareCommand& command, const Console& console)
      : command_(command), console_(console) {}

  ExitStatus Run();

 private:
  // These return false, with error_ and the status to end with.
  bool Check();
  bool TakeEarlier();
  bool Store();
  ComparedTarget CompareOne(const std::string& target);
  CampaignSummary Hunt(const std::string& target, const fs::path& folder);
  bool interrupted() const { return console_.interrupt->load(); }

  const CompareCommand& command_;
  const Console& console_;
  // All that the folder holds, those that are asked for first.
  TargetComparison comparison_;
  ExitStatus status_ = ExitStatus::kUsage;
  std::string error_;
};

bool CompareRun::Check() {
  if (command_.yardstick.starts_with("own")) {
    error_ = "--yardstick: '" + command_.yardstick + "' is another contract for each target";
    return false;
  }
  for (const std::string& target : command_.targets) {
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
  comparison_.palette = command_.palette;
  comparison_.contract = command_.contract;
  comparison_.yardstick = command_.yardstick;
  comparison_.infer = !command_.infer ? "python" : *command_.infer ? "all" : "none";
  const fs::path file = command_.out / kComparisonName;
  std::error_code code;
  if (!fs::exists(command_.out, code) || fs::is_empty(command_.out, code)) return true;
  if (!fs::exists(file, code)) {
    error_ = "--out: " + command_.out.string() + " holds no comparison, and is not empty";
    return false;
  }
  std::optional<TargetComparison> read =
      ReadRecord<TargetComparison>(file, kMostComparison, "comparison", &error_);
  if (!read) return false;
  if (!read->SameCases(comparison_)) {
    error_ = "--out: " + command_.out.string() +
             " holds a comparison by other cases, shapes or contracts, or of another version";
    return false;
  }
  for (const std::string& target : command_.targets) {
    if (ComparedTarget* const known = read->Find(target)) comparison_.targets.push_back(*known);
  }
  for (ComparedTarget& target : read->targets) {
    if (comparison_.Find(target.target) == nullptr) comparison_.targets.push_back(std::move(target));
  }
  return true;
}

bool CompareRun::Store() {
  comparison_.verdict = Name(StatusOf(comparison_));
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
  if (command_.shrink_time.count() > 0) {
    options.shrink_time = options.compiling_shrink_time = command_.shrink_time;
  }
  options.program = console_.worker_program;
  options.out = folder;
  CampaignSummary none;
  none.error = WhyNoTarget(options.targets.front());
  none.status = none.error.empty() ? InferContracts(command_.infer, console_, &options, &none.error)
                                   : ExitStatus::kUnavailable;
  if (none.status != ExitStatus::kClean) {
    none.options = std::move(options);
    return none;
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // of a comparison that was cut off; what is left is refused below
  return RunWatched(std::move(options), console_, [this](const CampaignEvent& event) {
    if (event.kind == CampaignEvent::Kind::kFault) SayFault(event, console_);
  });
}

ComparedTarget CompareRun::CompareOne(const std::string& target) {
  console_.Say("plumb: " + target + ": " + std::to_string(command_.cases) + " cases of seed " +
               std::to_string(command_.seed) + "\n");
  const CampaignSummary summary = Hunt(target, command_.out / FolderOfTarget(target));
  ComparedTarget of = OfCampaign(target, summary);
  if (summary.targets.empty() || interrupted()) return of;
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
  if (!Check() || !TakeEarlier() || !Store()) {
    console_.Complain(error_);
    return console_.Finish(status_);
  }
  for (const std::string& target : command_.targets) {
    ComparedTarget* known = comparison_.Find(target);
    if (known != nullptr && known->Complete()) {
      console_.Say("plumb: " + target + " was compared before\n");
      continue;
    }
    ComparedTarget of = CompareOne(target);
    if (interrupted()) {
      console_.Complain("interrupted; the same command goes on with " + target);
      return console_.Finish(ExitStatus::kInterrupted);
    }
    if (known == nullptr) known = &comparison_.targets.emplace_back();
    *known = std::move(of);
    if (!Store()) {
      console_.Complain(error_);
      return console_.Finish(status_);
    }
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
  AddParsed(sub, "--seed", &options->seed, ParseSeed,
            "of the cases and of the problems, decimal or 0x hexadecimal [1]");
  sub->add_option("--palette", options->palette,
                  "shapes of the cases, for targets that compile for each; 0: any [0]")
      ->check(CLI::Range(int64_t{0}, kMostPalette));
  sub->add_option("--jobs", options->jobs, "cases at the same time [one a hardware thread]")
      ->check(CLI::Range(1, 1024));
  AddParsed(sub, "--shrink-time", &options->shrink_time, ParseTime,
            "at most so long a finding [30s; with a palette 120s]");
  sub->add_option("--out", options->out,
                  "folder of the results; where it holds a part of the same comparison, the rest is "
                  "done [plumb-comparison]");
}

}  // namespace plumbline::fuzz
