// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "fuzz/base/text.h"
#include "fuzz/builtin/catalogue.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/selftest/hunt.h"
#include "fuzz/campaign/selftest/kill_matrix.h"
#include "fuzz/campaign/selftest/kill_statistics.h"
#include "fuzz/cli/commands.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

// The names of a family's mutants, and the target that they are mutants of.
struct FamilyNames {
  std::string_view prefix;
  std::string sound;
};

FamilyNames NamesOf(SelftestCommand::Family family) {
  switch (family) {
    case SelftestCommand::Family::kHopper:
      return {"hopper-mutant:", "host-hopper"};
    case SelftestCommand::Family::kCuda:
      return {"cuda-mutant:", "cuda+cuda-portable+cuda-forward-backward"};
    default:
      return {"mutant:", "host"};
  }
}

// Returns the targets to hunt: every mutant of the family, or the named one, which may be any built-in
// target. Empty if there is none of the name.
std::vector<BuiltIn> TargetsOf(const SelftestCommand& command) {
  const std::string prefix(NamesOf(command.family).prefix);
  std::vector<BuiltIn> targets;
  for (BuiltIn& built_in : BuiltInTargets()) {
    const bool asked = command.mutant.empty() ? built_in.name.starts_with(prefix)
                                              : built_in.name == command.mutant ||
                                                    built_in.name == prefix + command.mutant;
    if (asked) targets.push_back(std::move(built_in));
  }
  return targets;
}

std::string NamesOfMutants(SelftestCommand::Family family) {
  std::string names;
  for (const BuiltIn& built_in : BuiltInTargets()) {
    if (built_in.name.starts_with(NamesOf(family).prefix)) names += " " + built_in.name;
  }
  return names;
}

// Runs body(i) for i in [0, count) on several threads.
template <class Body>
void OnThreads(int jobs, size_t count, Body body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  };
  std::vector<std::thread> threads;
  for (size_t j = 1; j < std::min(static_cast<size_t>(jobs), count); ++j) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// Prints one line for each kill; `with_seed` adds the seed, if there are several hunts for each mutant.
std::string KillsTable(const std::vector<Kill>& kills, bool with_seed) {
  std::vector<std::vector<std::string>> rows = {{"mutant", "outcome", "regime", "check", "cases",
                                                 "seconds", "values", "shrunk to", "in seconds",
                                                 "bucket"}};
  for (const Kill& kill : kills) {
    std::string name = kill.target;
    if (with_seed) name += Text(" seed %" PRIu64, kill.seed);
    rows.push_back({std::move(name), kill.killed() ? "killed" : "ALIVE: " + kill.trouble});
    if (!kill.sighting.kept) continue;
    const StoredFinding& kept = *kill.sighting.kept;
    for (std::string cell :
         {kill.sighting.regime, kill.sighting.signature, std::to_string(kill.cases),
          Text("%.2f", kill.seconds), std::to_string(kept.values_before),
          std::to_string(kept.values_after), Text("%.2f", kept.seconds), kill.bucket.id}) {
      rows.back().push_back(std::move(cell));
    }
  }
  return Table(rows);
}

class Selftest {
 public:
  Selftest(const SelftestCommand& command, const Console& console, std::vector<BuiltIn> targets,
           std::filesystem::path out)
      : command_(command), console_(console), targets_(std::move(targets)), out_(std::move(out)) {
    jobs_ = command.jobs > 0 ? command.jobs : DefaultJobs(targets_.front().on_device);
  }

  void HuntAll() {
    kills_.resize(targets_.size() * static_cast<size_t>(command_.seeds));
    OnThreads(jobs_, kills_.size(), [&](size_t i) {
      if (console_.interrupt->load()) return;
      HuntSpec spec;
      spec.target = targets_[i % targets_.size()].name;
      spec.race = !targets_[i % targets_.size()].deterministic;
      spec.seed = command_.seed + i / targets_.size();
      spec.budget = command_.budget;
      std::string folder = spec.target;
      std::replace(folder.begin(), folder.end(), ':', '-');
      spec.out = out_ / ("seed-" + std::to_string(spec.seed)) / folder;
      spec.program = console_.worker_program;
      kills_[i] = Hunt(spec, *console_.interrupt);
      Say(kills_[i]);
    });
  }

  void TryAllRegimes() {
    if (command_.matrix == 0) return;
    matrix_.resize(targets_.size());
    OnThreads(jobs_, matrix_.size(), [&](size_t i) {
      matrix_[i] = TryRegimes(targets_[i].name, command_.seed, command_.matrix, console_.worker_program,
                              *console_.interrupt);
    });
  }

  // Runs the target without a defect, which must stay clean.
  void RunSound() {
    if (!command_.mutant.empty()) return;
    CampaignOptions options;
    options.targets = {NamesOf(command_.family).sound};
    options.seed = command_.seed;
    options.budget = command_.budget;
    options.jobs = jobs_;
    options.out = out_ / options.targets[0];
    options.program = console_.worker_program;
    CampaignObserver silent;
    sound_ = RunCampaign(std::move(options), *console_.interrupt, &silent);
  }

  ExitStatus Finish(bool temporary) const {
    int64_t cases = 0, findings = 0;
    bool all_killed = true, fault = false, trouble_in_matrix = false;
    for (const Kill& kill : kills_) {
      cases += kill.cases;
      findings += kill.found();
      all_killed = all_killed && kill.killed();
      fault = fault || kill.campaign == ExitStatus::kFault;
    }
    for (const MatrixRow& row : matrix_) trouble_in_matrix = trouble_in_matrix || !row.trouble.empty();
    Json report;
    report["mutants"] = Json(Json::Array{});
    for (const Kill& kill : kills_) {
      if (!kill.target.empty()) report["mutants"].Append(ToJson(kill));
    }
    if (console_.interrupt->load()) {
      return console_.Finish(ExitStatus::kInterrupted, cases, findings, std::move(report));
    }
    const KillStatistics statistics = Summarise(kills_);
    report["statistics"] = ToJson(statistics);
    console_.Say("\n" + KillsTable(InOrderOfMutants(), command_.seeds > 1) + "\n" +
                 StatisticsText(statistics));
    if (!matrix_.empty()) {
      report["matrix"] = MatrixJson(matrix_, command_.matrix);
      console_.Say("\n" + MatrixText(matrix_, command_.matrix));
    }
    bool sound = true;
    if (sound_) {
      sound = sound_->status == ExitStatus::kClean;
      fault = fault || sound_->status == ExitStatus::kFault;
      for (const auto& [name, tally] : sound_->targets) {
        cases += tally.cases;
        console_.Say(Text("%s: %s after %" PRId64 " cases\n", name.c_str(),
                          std::string(Name(sound_->status)).c_str(), tally.cases));
      }
      if (!sound_->error.empty()) console_.Say(sound_->error + "\n");
      report[sound_->options.targets[0]] = ToJson(*sound_);
    }
    // A mutant that was found is this command's success. Its failures are findings of a target without
    // a defect, and mutants without a finding.
    fault = fault || trouble_in_matrix;
    const bool clean = all_killed && sound && !fault;
    if (temporary && clean) {
      std::error_code ignored;
      std::filesystem::remove_all(out_, ignored);
    } else {
      console_.Say("everything lies in " + out_.string() + "\n");
    }
    const ExitStatus status = fault   ? ExitStatus::kFault
                              : clean ? ExitStatus::kClean
                                      : ExitStatus::kFindings;
    return console_.Finish(status, cases, findings, std::move(report));
  }

 private:
  void Say(const Kill& kill) {
    const std::lock_guard lock(mutex_);
    console_.Say(kill.target + Text(", seed %" PRIu64 ": ", kill.seed) +
                 (kill.killed() ? Text("killed after %" PRId64 " cases\n", kill.cases)
                                : "ALIVE: " + kill.trouble + "\n"));
  }

  std::vector<Kill> InOrderOfMutants() const {
    std::vector<Kill> ordered;
    for (size_t t = 0; t < targets_.size(); ++t) {
      for (size_t i = t; i < kills_.size(); i += targets_.size()) ordered.push_back(kills_[i]);
    }
    return ordered;
  }

  const SelftestCommand& command_;
  const Console& console_;
  const std::vector<BuiltIn> targets_;
  const std::filesystem::path out_;
  int jobs_;
  std::mutex mutex_;         // guards the console
  std::vector<Kill> kills_;  // seed by seed, each over all targets
  std::vector<MatrixRow> matrix_;
  std::optional<CampaignSummary> sound_;
};

}  // namespace

ExitStatus CommandSelftest(const SelftestCommand& command, const Console& console) {
  std::vector<BuiltIn> targets = TargetsOf(command);
  if (targets.empty()) {
    console.Complain("mutant '" + command.mutant + "' is unknown; there are" +
                     NamesOfMutants(command.family));
    return console.Finish(ExitStatus::kUsage, 0, 0);
  }
  const bool temporary = command.out.empty();
  std::filesystem::path out = temporary ? std::filesystem::temp_directory_path() /
                                              ("plumb-selftest-" + std::to_string(getpid()))
                                        : command.out;
  std::string seeds = Text("seed %" PRIu64, command.seed);
  if (command.seeds > 1) {
    seeds = Text("seeds %" PRIu64 " to %" PRIu64, command.seed,
                 command.seed + static_cast<uint64_t>(command.seeds) - 1);
  }
  console.Say("each mutant is a planted defect: a blind campaign of at most " + Format(command.budget) +
              " must find it, " + seeds + "\n");
  Selftest selftest(command, console, std::move(targets), std::move(out));
  selftest.HuntAll();
  selftest.TryAllRegimes();
  selftest.RunSound();
  return selftest.Finish(temporary);
}

}  // namespace plumbline::fuzz
