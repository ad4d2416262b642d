// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/palette.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/infer_contracts.h"
#include "fuzz/cli/inference_text.h"
#include "fuzz/cli/progress_printer.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/gpu/probe/probe.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProgressEvery{200};

// Prints events as they come, and progress between them.
class Printer {
 public:
  Printer(const Console& console, const CampaignOptions& options)
      : console_(console),
        out_(options.out),
        production_(options.production),
        progress_(console) {}

  void Tell(const CampaignEvent& event) {
    const Sighting& sighting = event.sighting;
    const std::string& reason = sighting.finding.arbiter_silent;
    const std::string silent = reason.empty() ? "" : "     the arbiter was not asked: " + reason + "\n";
    switch (event.kind) {
      case CampaignEvent::Kind::kNote:
        return Print("note: " + event.text + "\n");
      case CampaignEvent::Kind::kSighting:
        // The finding's own text comes when it is shrunk, and need not say this.
        if (silent.empty()) return;
        return Print("seen " + sighting.signature + " on " + sighting.target + ": " +
                     sighting.finding.what + "\n" + silent);
      case CampaignEvent::Kind::kStored:
        return Stored(event);
      case CampaignEvent::Kind::kFault:
        return Print("FAULT OF THE HARNESS: " + event.text + "\n  see " + event.file.string() + "\n");
    }
  }

  void Show(const Progress& progress) { progress_.Show(progress); }
  void Clear() { progress_.Clear(); }

  // Prints in full the findings of this run that one line was printed of.
  void ShowRest(const std::vector<RankedFinding>& ranking) {
    for (const RankedFinding& finding : ranking) {
      const SightingKey key(finding.sighting.target, finding.sighting.signature);
      if (numbers_.contains(key) && !in_full_.contains(key)) PrintBlock(finding);
    }
  }

 private:
  // A part of a finding is in the summary. One that takes the lead of a printed finding has its number.
  void Stored(const CampaignEvent& event) {
    const Sighting& sighting = event.sighting;
    if (!sighting.part_of.empty()) return;
    for (const std::string& part : event.finding.parts) {
      const auto printed = numbers_.find({sighting.target, part});
      if (printed == numbers_.end()) continue;
      const SightingKey key(sighting.target, sighting.signature);
      const int64_t number = numbers_[key] = printed->second;
      if (in_full_.contains(printed->first)) in_full_.insert(key);
      return Print("finding " + std::to_string(number) + " is graver: " + sighting.kept->finding.what +
                   "\n  again    " + ShellQuote(console_.program) + " replay " +
                   ShellQuote((out_ / sighting.kept->file).string()) + "\n");
    }
    numbers_[{sighting.target, sighting.signature}] = ++printed_;
    if (printed_ == 1 || production_) return PrintBlock(event.finding);
    // It may still turn out to be a part of another.
    Print("finding " + std::to_string(printed_) + ": " + sighting.kept->finding.what + "\n");
  }

  void PrintBlock(const RankedFinding& finding) {
    const Sighting& sighting = finding.sighting;
    const SightingKey key(sighting.target, sighting.signature);
    in_full_.insert(key);
    Print(FindingBlock(finding, numbers_[key], WhyOf(sighting.regime), console_.program, out_,
                       production_));
  }

  void Print(const std::string& text) {
    Clear();
    console_.Say(text);
  }

  const Console& console_;
  const std::filesystem::path out_;
  const bool production_;
  ProgressPrinter progress_;
  int64_t printed_ = 0;
  std::map<SightingKey, int64_t> numbers_;  // of findings that were printed
  std::set<SightingKey> in_full_;
};

std::filesystem::path FreshFolder() {
  const std::string name = "plumb-out-" + UtcStamp();
  std::filesystem::path path = name;
  for (int i = 2; std::filesystem::exists(path); ++i) path = name + "-" + std::to_string(i);
  return path;
}

// Resumes the campaign in options->out if there is one of production size, of the same seed and
// targets. Returns an empty text, or the reason against it.
std::string GoOn(CampaignOptions* options) {
  std::error_code code;
  if (!std::filesystem::exists(options->out / kJournalName, code)) return {};
  std::string error;
  const std::unique_ptr<JournalReader> journal = JournalReader::Open(options->out, &error);
  if (!journal) return error;
  const CampaignOptions& held = journal->options();
  options->resume = true;
  return held.production && held.seed == options->seed && held.targets == options->targets &&
                 held.recipe == options->recipe
             ? ""
             : options->out.string() +
                   " holds a campaign of another kind, seed, recipe or other targets";
}

// Adds what the device is.
void AddDevice(Json* json) {
  ProbedDevice device;
  std::string error;
  if (!DescribeDevice(&device, &error)) return;
  (*json)["device"] = device.name;
  (*json)["compute_capability"] = std::to_string(device.major) + "." + std::to_string(device.minor);
  (*json)["cuda_driver"] = device.driver;
  (*json)["cuda_runtime"] = device.runtime;
}

// Returns kClean, or what is wrong with the options before anything is loaded. Loading a target may
// take a minute, in which the line that says what is hunted must not be missing.
std::pair<ExitStatus, std::string> WhyNotBegun(const CampaignOptions& options) {
  for (const std::string& target : options.targets) {
    if (std::string why = WhyNoTarget(target); !why.empty()) return {ExitStatus::kUnavailable, why};
  }
  std::string why = Objection(options);
  if (why.empty()) why = Journal::Taken(options.out);
  return {why.empty() ? ExitStatus::kClean : ExitStatus::kUsage, why};
}

// What is asked beside a campaign's options.
struct FuzzOptions {
  bool verbose = false;
  std::optional<bool> infer;     // InferContracts
  bool allow_shortcuts = false;  // they do not decide the status
};

ExitStatus CommandFuzz(CampaignOptions options, const FuzzOptions& asked, const Console& console) {
  if (options.out.empty()) options.out = FreshFolder();
  if (options.production && !options.resume) {
    if (const std::string why = GoOn(&options); !why.empty()) {
      console.Complain(why);
      return console.Finish(ExitStatus::kUsage);
    }
  }
  options.program = console.worker_program;
  if (!options.resume) {
    const auto [status, why] = WhyNotBegun(options);
    if (status != ExitStatus::kClean) {
      console.Complain(why);
      return console.Finish(status);
    }
  }
  if (!options.resume && options.recipe.empty()) {
    std::string targets;
    for (const std::string& target : options.targets) targets += " " + target;
    console.Say("plumb: fuzzing" + targets + " for " + Format(options.GetBudget()) + ", seed " +
                std::to_string(options.seed) + ", into " + options.out.string() + "\n");
  }
  std::string error;
  if (const ExitStatus status = InferContracts(asked.infer, console, &options, &error);
      status != ExitStatus::kClean) {
    console.Complain(error);
    return console.Finish(status);
  }
  Campaign campaign(std::move(options), *console.interrupt);
  Printer printer(console, campaign.options());
  std::vector<CampaignEvent> events;
  while (campaign.Next(kProgressEvery, &events)) {
    for (const CampaignEvent& event : events) printer.Tell(event);
    if (events.empty()) printer.Show(campaign.GetProgress());
  }
  printer.Clear();
  const CampaignSummary summary = campaign.Finish();
  if (summary.targets.empty()) {
    console.Complain(summary.error);
    return console.Finish(summary.status, {}, ToJson(summary));
  }
  printer.ShowRest(summary.ranking);
  console.Say(SummaryText(summary, console.program, asked.verbose));
  for (const size_t i : NoLongerSeen(summary)) {
    console.Say("note: known, not seen in this hunt: " + summary.options.known[i].Name() + "\n");
  }
  if (!summary.error.empty()) console.Complain(summary.error);
  Json json = ToJson(summary);
  if (summary.options.production) AddDevice(&json);
  int64_t shortcuts = 0;
  for (const Inference& each : summary.options.inferred) {
    if (summary.options.resume) console.Say("inferred when it began:\n" + InferenceText(each));
    json["inference"].Append(ToJson(each));
    shortcuts += static_cast<int64_t>(each.shortcuts.size());
  }
  ExitStatus status = summary.status;
  if (shortcuts > 0 && !asked.allow_shortcuts && status == ExitStatus::kClean) {
    status = ExitStatus::kFindings;
    console.Say("plumb: no bug, but shortcuts: declare them, or --allow-shortcuts\n");
  }
  return console.Finish(status, CountsOf(summary), std::move(json));
}

void AddInference(CLI::App* sub, const std::shared_ptr<FuzzOptions>& asked) {
  // CLI11 sets an optional flag that it is given a reference to, to false where none is passed.
  sub->add_flag_function(
      "--infer,!--no-infer", [=](int64_t count) { asked->infer = count > 0; },
      "before the hunt, find out what a target rounds that declares no contract, or beyond "
      "--contract [if it is Python's and declares none]");
  sub->add_flag("--allow-shortcuts", asked->allow_shortcuts,
                "shortcuts that were inferred do not decide the exit status");
}

// Adds --lag, and returns it.
CLI::Option* AddLag(CLI::App* sub, CampaignOptions* options) {
  CLI::Option* lag =
      sub->add_option("--lag", options->lag,
                      "guided cases are drawn from results that are G times 512 cases old "
                      "[2]; more for dozens of jobs, which wait less then");
  lag->type_name("G")->check(CLI::Range(kLeastLag, kMostLag));
  return lag;
}

// Adds what limits cases, their number and their time. Returns --palette.
CLI::Option* AddLimits(CLI::App* sub, CampaignOptions* options) {
  AddParsed(sub, "--worker-memory", &options->worker_memory, ParseBytes,
            "what a worker may allocate once its target is loaded, on the CPU; 0: no limit [4GiB]");
  sub->add_option("--jobs", options->jobs, "cases at the same time [one a hardware thread]")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--stop-after", options->stop_after, "distinct findings; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  AddParsed(sub, "--case-timeout", &options->case_timeout, ParseTime,
            "a case that takes longer is a hang [20s; of production size 120s]");
  sub->add_option("--shrink-tries", options->shrink_tries,
                  "limits shrinking by tries a finding, in place of the time")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* palette = sub->add_option("--palette", options->palette,
                                         "shapes for a target that compiles for each; 0: any [by the "
                                         "measured time of a first call]");
  palette->check(CLI::Range(int64_t{0}, kMostPalette));
  AddParsed(sub, "--first-call-timeout", &options->first_call_timeout, ParseTime,
            "a first call of a shape that takes longer is a hang, where there is a palette [5m]");
  return palette;
}

}  // namespace

void AddFuzz(CommandLine* line) {
  auto options = std::make_shared<CampaignOptions>();
  auto contract = std::make_shared<std::string>();
  auto known = std::make_shared<std::filesystem::path>();
  auto asked = std::make_shared<FuzzOptions>();
  options->seed = std::random_device()();  // of a campaign without --seed
  CLI::App* sub =
      line->Add("fuzz", "Hunt: case after case until the budget ends",
                "plumb fuzz --target host --budget 60s --seed 1 --out hunt", [=] {
                  if (options->targets.empty() && !options->resume) {
                    throw CLI::RequiredError("--target, or --resume");
                  }
                  CampaignOptions held = *options;
                  for (std::string& target : held.targets) {
                    if (!contract->empty() && !SplitTarget(target).second.empty()) {
                      throw CLI::ValidationError("--contract", "target " + target + " has one already");
                    }
                    target = HeldTo(std::move(target), *contract);
                  }
                  if (!known->empty()) {
                    std::string error;
                    auto entries = ReadKnown(*known, &error);
                    if (!entries) throw CLI::ValidationError("--known", error);
                    held.known = *std::move(entries);
                  }
                  return CommandFuzz(std::move(held), *asked, line->console);
                });
  auto* targets = sub->add_option(
      "--target", options->targets,
      "host, host-hopper, cuda, cuda-portable, cuda-simt, cuda-forward-backward, mutant:NAME, "
      "plugin:PATH.so or python:MODULE:FUNCTION; may be repeated; see `plumb targets`");
  targets->allow_extra_args(false);
  AddPython(sub);
  CLI::Option* held_to = AddContract(sub, contract.get());
  AddParsed(sub, "--budget", &options->budget, ParseBudget,
            "90s, 10m, 2h or 5000cases (for each target) [60s]");
  auto* seed = AddParsed(sub, "--seed", &options->seed, ParseSeed,
                         "decimal or 0x hexadecimal [random, printed]");
  auto* regime = sub->add_option("--regime", options->regime, "this family of recipes only");
  auto* recipe =
      sub->add_option("--recipe", options->recipe, "this one case only, as a finding prints it");
  auto* of_production = sub->add_flag(
      "--production", options->production,
      "cases of production size, made and judged on the GPU; goes on with what is in --out");
  auto* corpus = sub->add_option("--corpus", options->corpus, "cases to replay first, a folder [none]");
  auto* blind = sub->add_flag("--blind", options->blind,
                              "draws alone: no level one, and nothing that was seen has a say");
  CLI::Option* lag = AddLag(sub, options.get());
  auto* shard = AddParsed(sub, "--shard", &options->shard, ParseShard,
                          "I/N: part I of N that share a seed and no case [0/1]");
  auto* out = sub->add_option("--out", options->out, "folder for all that is found [plumb-out-TIME]");
  sub->add_option("--known", *known, "findings that are accepted, a JSON file [none]");
  sub->add_flag("--verbose", asked->verbose, "also a table of what each regime showed");
  AddInference(sub, asked);
  CLI::Option* palette = AddLimits(sub, options.get());
  auto* resume = sub->add_option_function<std::string>(
      "--resume",
      [=](const std::string& dir) {
        options->resume = true;
        options->out = dir;
      },
      "go on with the campaign in this folder");
  for (CLI::Option* other :
       {targets, held_to, seed, regime, recipe, corpus, blind, lag, shard, out, palette})
    resume->excludes(other);
  for (CLI::Option* other : {regime, corpus, blind, lag, shard}) {
    recipe->excludes(other);
    of_production->excludes(other);
  }
  blind->excludes(corpus);
  for (const char* name :
       {"--worker-memory", "--jobs", "--stop-after", "--shrink-tries", "--palette"}) {
    of_production->excludes(sub->get_option(name));
  }
}

}  // namespace plumbline::fuzz
