// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>

#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/gpu/probe/probe.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProgressEvery{200};

// Prints one line, written over and over, on a terminal; elsewhere a line every ten seconds.
class Printer {
 public:
  Printer(const Console& console, const CampaignOptions& options)
      : console_(console),
        out_(options.out),
        production_(options.production),
        live_(isatty(fileno(console.human())) == 1) {}

  void Tell(const CampaignEvent& event) {
    const Sighting& sighting = event.sighting;
    const std::string& reason = sighting.finding.arbiter_silent;
    const std::string silent = reason.empty() ? "" : "     the arbiter was not asked: " + reason + "\n";
    switch (event.kind) {
      case CampaignEvent::Kind::kNote:
        return Print("note: " + event.text + "\n");
      case CampaignEvent::Kind::kSighting:
        return Print("seen " + sighting.signature + " on " + sighting.target + ": " +
                     sighting.finding.what + "\n" + silent +
                     (production_ ? "" : "     shrinking it ...\n"));
      case CampaignEvent::Kind::kStored:
        return Print("\n" +
                     FindingBlock(sighting, ++stored_, WhyOf(sighting.regime), console_.program, out_,
                                  production_) +
                     "\n");
      case CampaignEvent::Kind::kFault:
        return Print("FAULT OF THE HARNESS: " + event.text + "\n  see " + event.file.string() + "\n");
    }
  }

  void Show(const Progress& progress) {
    if (live_) {
      console_.Say("\r\x1b[K" + StatusLine(progress, Width()));
      dirty_ = true;
    } else if (progress.elapsed >= next_) {
      console_.Say(StatusLine(progress) + "\n");
      next_ = progress.elapsed + kEvery;
    }
  }

  void Clear() {
    if (std::exchange(dirty_, false)) console_.Say("\r\x1b[K");
  }

 private:
  static constexpr milliseconds kEvery{10'000};
  // Returns one column less than the terminal has now: a line that wraps cannot be written over.
  size_t Width() const {
    winsize size{};
    const bool known = ioctl(fileno(console_.human()), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return (known ? size.ws_col : 80U) - 1U;
  }

  void Print(const std::string& text) {
    Clear();
    console_.Say(text);
  }

  const Console& console_;
  const std::filesystem::path out_;
  const bool production_, live_;
  bool dirty_ = false;
  int64_t stored_ = 0;
  milliseconds next_ = kEvery;
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

ExitStatus CommandFuzz(CampaignOptions options, const Console& console) {
  if (options.out.empty()) options.out = FreshFolder();
  if (options.production && !options.resume) {
    if (const std::string why = GoOn(&options); !why.empty()) {
      console.Complain(why);
      return console.Finish(ExitStatus::kUsage, 0, 0);
    }
  }
  options.program = console.worker_program;
  if (!options.resume && options.recipe.empty()) {
    std::string targets;
    for (const std::string& target : options.targets) targets += " " + target;
    console.Say("plumb: fuzzing" + targets + " for " + Format(options.GetBudget()) + ", seed " +
                std::to_string(options.seed) + ", into " + options.out.string() + "\n");
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
    return console.Finish(summary.status, 0, 0, ToJson(summary));
  }
  int64_t cases = 0;
  for (const auto& [target, tally] : summary.targets) cases += tally.cases;
  console.Say(SummaryText(summary, console.program));
  if (!summary.error.empty()) console.Complain(summary.error);
  Json json = ToJson(summary);
  if (summary.options.production) AddDevice(&json);
  return console.Finish(summary.status, cases, static_cast<int64_t>(summary.sightings.size()),
                        std::move(json));
}

}  // namespace

void AddFuzz(CommandLine* line) {
  auto options = std::make_shared<CampaignOptions>();
  options->seed = std::random_device()();  // of a campaign without --seed
  CLI::App* sub = line->Add("fuzz", "Hunt: case after case until the budget ends",
                            "plumb fuzz --target host --budget 60s --seed 1 --out hunt", [=] {
                              if (options->targets.empty() && !options->resume) {
                                throw CLI::RequiredError("--target, or --resume");
                              }
                              return CommandFuzz(*options, line->console);
                            });
  auto* targets = sub->add_option(
      "--target", options->targets,
      "host, host-hopper, cuda, cuda-portable, cuda-simt, cuda-forward-backward, mutant:NAME or "
      "plugin:PATH.so; may be repeated; see `plumb targets`");
  targets->allow_extra_args(false);
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
  auto* shard = AddParsed(sub, "--shard", &options->shard, ParseShard,
                          "I/N: part I of N that share a seed and no case [0/1]");
  AddParsed(sub, "--worker-memory", &options->worker_memory, ParseBytes,
            "what a worker may allocate once its target is loaded, on the CPU; 0: no limit [4GiB]");
  auto* out = sub->add_option("--out", options->out, "folder for all that is found [plumb-out-TIME]");
  sub->add_option("--jobs", options->jobs, "cases at the same time [one a hardware thread]")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--stop-after", options->stop_after, "distinct findings; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  AddParsed(sub, "--case-timeout", &options->case_timeout, ParseTime,
            "a case that takes longer is a hang [20s; of production size 120s]");
  auto* resume = sub->add_option_function<std::string>(
      "--resume",
      [=](const std::string& dir) {
        options->resume = true;
        options->out = dir;
      },
      "go on with the campaign in this folder");
  for (CLI::Option* other : {targets, seed, regime, recipe, corpus, blind, shard, out})
    resume->excludes(other);
  for (CLI::Option* other : {regime, corpus, blind, shard}) {
    recipe->excludes(other);
    of_production->excludes(other);
  }
  blind->excludes(corpus);
  for (const char* name : {"--worker-memory", "--jobs", "--stop-after"}) {
    of_production->excludes(sub->get_option(name));
  }
}

}  // namespace plumbline::fuzz
