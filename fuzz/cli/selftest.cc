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
#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/selftest/hunt.h"
#include "fuzz/campaign/selftest/kill_matrix.h"
#include "fuzz/campaign/selftest/kill_statistics.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

// The names of a family's mutants, and the target that they are mutants of.
struct Family {
  std::string_view prefix, sound;
};
constexpr Family kHost = {"mutant:", "host"};
constexpr Family kHopper = {"hopper-mutant:", "host-hopper"};
constexpr Family kCuda = {"cuda-mutant:", "cuda+cuda-portable+cuda-forward-backward"};

struct SelftestCommand {
  std::string mutant;  // empty: all of them, and their target, which must stay clean
  Family family = kHost;
  std::string contract;  // that they are held to; empty: their own
  uint64_t seed = 1;
  int seeds = 1;       // each mutant is hunted with this many seeds, from `seed` on
  int64_t matrix = 0;  // cases of each regime alone on each mutant; 0: none
  int jobs = 0;        // mutants at the same time; 0: one per hardware thread
  Budget budget{.time = {}, .cases = 1000};
  std::filesystem::path out;  // empty: a temporary folder, removed if all is well
};

// Returns the targets to hunt: every mutant of the family, or the named one, which may be any built-in
// target. Empty if there is none of the name.
std::vector<BuiltIn> TargetsOf(const SelftestCommand& command) {
  const std::string prefix(command.family.prefix);
  std::vector<BuiltIn> targets;
  for (const BuiltIn& built_in : BuiltInTargets()) {
    const bool asked = command.mutant.empty() ? built_in.name.starts_with(prefix)
                                              : built_in.name == command.mutant ||
                                                    built_in.name == prefix + command.mutant;
    if (!asked) continue;
    targets.push_back(built_in);
    targets.back().name = HeldTo(built_in.name, command.contract);
  }
  return targets;
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

std::string Outcome(const Kill& kill) {
  if (!kill.trouble.empty()) return "ALIVE: " + kill.trouble;
  return kill.allowed.empty() ? "killed" : "allowed: " + kill.allowed;
}

// A mutant that does what a target without a contract may do is rightly not found. `why` is the table's
// reason (fuzz/builtin/mutants/table.txt); empty: it may not.
void AllowWhatItMay(const std::string& why, Kill* kill) {
  if (why.empty() || kill->campaign == ExitStatus::kFault ||
      kill->campaign == ExitStatus::kUnavailable) {
    return;
  }
  if (kill->found()) {
    kill->trouble = "found, though the table of mutants says: " + why;
  } else if (kill->campaign == ExitStatus::kClean) {
    kill->trouble.clear();
    kill->allowed = why;
  }
}

// Prints one line for each kill; `with_seed` adds the seed, if there are several hunts for each mutant.
std::string KillsTable(const std::vector<Kill>& kills, bool with_seed) {
  std::vector<std::vector<std::string>> rows = {{"mutant", "outcome", "regime", "check", "cases",
                                                 "seconds", "values", "shrunk to", "in seconds",
                                                 "bucket"}};
  for (const Kill& kill : kills) {
    std::string name = kill.target;
    if (with_seed) name += Text(" seed %" PRIu64, kill.seed);
    rows.push_back({std::move(name), Outcome(kill)});
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
      const BuiltIn& mutant = targets_[i % targets_.size()];
      const uint64_t seed = command_.seed + i / targets_.size();
      std::string folder = mutant.name;
      std::replace_if(
          folder.begin(), folder.end(), [](char c) { return c == ':' || c == '/'; }, '-');
      kills_[i] = Hunt(CampaignOf(mutant.name, seed, out_ / ("seed-" + std::to_string(seed)) / folder),
                       !mutant.deterministic, *console_.interrupt);
      if (command_.contract == kBlackBox) AllowWhatItMay(mutant.black_box, &kills_[i]);
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
    const std::string sound = HeldTo(std::string(command_.family.sound), command_.contract);
    CampaignOptions options = CampaignOf(sound, command_.seed, out_ / sound);
    options.jobs = jobs_;
    sound_ = RunCampaign(std::move(options), *console_.interrupt);
  }

  ExitStatus Finish(bool temporary) const {
    Counts counts;
    // A mutant that was found is this command's success. Its failures are findings of a target without
    // a defect, and mutants without a finding.
    ExitStatus status = ExitStatus::kClean;
    const auto note = [&](bool happened, ExitStatus as) {
      if (happened) status = Gravest({status, as});
    };
    for (const Kill& kill : kills_) {
      counts.cases += kill.cases;
      counts.judged += kill.judged;
      counts.findings += kill.found();
      note(!kill.trouble.empty(), ExitStatus::kFindings);
      note(kill.campaign == ExitStatus::kFault, ExitStatus::kFault);
    }
    for (const MatrixRow& row : matrix_) note(!row.trouble.empty(), ExitStatus::kFault);
    Json report;
    report["mutants"] = Json(Json::Array{});
    for (const Kill& kill : kills_) {
      if (!kill.target.empty()) report["mutants"].Append(ToJson(kill));
    }
    if (console_.interrupt->load()) {
      return console_.Finish(ExitStatus::kInterrupted, counts, std::move(report));
    }
    const KillStatistics statistics = Summarise(kills_);
    report["statistics"] = ToJson(statistics);
    console_.Say("\n" + KillsTable(InOrderOfMutants(), command_.seeds > 1) + "\n" +
                 StatisticsText(statistics));
    if (!matrix_.empty()) {
      report["matrix"] = MatrixJson(matrix_, command_.matrix);
      console_.Say("\n" + MatrixText(matrix_, command_.matrix));
    }
    if (sound_) {
      note(sound_->status != ExitStatus::kClean, ExitStatus::kFindings);
      note(sound_->status == ExitStatus::kFault, ExitStatus::kFault);
      for (const auto& [name, tally] : sound_->targets) {
        counts.cases += tally.cases;
        counts.judged += tally.Judged();
        console_.Say(Text("%s: %s after %" PRId64 " cases\n", name.c_str(),
                          std::string(Name(sound_->status)).c_str(), tally.cases));
      }
      if (!sound_->error.empty()) console_.Say(sound_->error + "\n");
      report[sound_->options.targets[0]] = ToJson(*sound_);
    }
    if (temporary && status == ExitStatus::kClean) {
      std::error_code ignored;
      std::filesystem::remove_all(out_, ignored);
    } else {
      console_.Say("everything lies in " + out_.string() + "\n");
    }
    return console_.Finish(status, counts, std::move(report));
  }

 private:
  CampaignOptions CampaignOf(const std::string& target, uint64_t seed,
                             std::filesystem::path out) const {
    CampaignOptions options;
    options.targets = {target};
    options.seed = seed;
    options.budget = command_.budget;
    options.out = std::move(out);
    options.program = console_.worker_program;
    return options;
  }

  void Say(const Kill& kill) {
    const std::lock_guard lock(mutex_);
    console_.Say(
        kill.target + Text(", seed %" PRIu64 ": ", kill.seed) +
        (kill.killed() ? Text("killed after %" PRId64 " cases\n", kill.cases) : Outcome(kill) + "\n"));
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

ExitStatus CommandSelftest(const SelftestCommand& command, const Console& console) {
  std::vector<BuiltIn> targets = TargetsOf(command);
  if (targets.empty()) {
    SelftestCommand all = command;
    all.mutant.clear();
    std::string names;
    for (const BuiltIn& mutant : TargetsOf(all)) names += " " + mutant.name;
    console.Complain("mutant '" + command.mutant + "' is unknown; there are" + names);
    return console.Finish(ExitStatus::kUsage);
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

}  // namespace

void AddSelftest(CommandLine* line) {
  auto options = std::make_shared<SelftestCommand>();
  CLI::App* sub = line->Add(
      "selftest",
      "Hunt every planted defect; all must be found, and what they are mutants of must stay clean",
      "plumb selftest --mutant tail-unmasked",
      [=] { return CommandSelftest(*options, line->console); });
  sub->add_option("--mutant", options->mutant, "this one only, or any other built-in target");
  auto* hopper = sub->add_flag_callback(
      "--hopper", [=] { options->family = kHopper; }, "the mutants of host-hopper instead of host's");
  sub->add_flag_callback(
         "--cuda", [=] { options->family = kCuda; }, "those of the CUDA operator; needs a GPU")
      ->excludes(hopper);
  AddParsed(sub, "--seed", &options->seed, ParseSeed, "decimal or 0x hexadecimal [1]");
  sub->add_option("--seeds", options->seeds, "hunts for each mutant, with consecutive seeds [1]")
      ->check(CLI::Range(1, 1'000));
  sub->add_option("--matrix", options->matrix,
                  "also try each regime by itself, for this many cases a mutant")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  sub->add_option("--jobs", options->jobs, "mutants at the same time [one a hardware thread]")
      ->check(CLI::Range(1, 1'024));
  AddParsed(sub, "--budget", &options->budget, ParseBudget, "for each mutant and for host [1000cases]");
  AddContract(sub, &options->contract);
  sub->add_option("--out", options->out, "keep everything in this folder");
}

}  // namespace plumbline::fuzz
