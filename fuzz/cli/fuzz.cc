// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

#include "fuzz/campaign/campaign.h"
#include "fuzz/cli/commands.h"
#include "fuzz/cli/report_text.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// Prints one line, written over and over, on a terminal; elsewhere a line every ten seconds.
class Printer : public CampaignObserver {
 public:
  Printer(const Console& console, const std::filesystem::path& out)
      : console_(console), out_(out), live_(isatty(fileno(console.human())) == 1) {}

  void OnNote(const std::string& note) override { Print("note: " + note + "\n"); }

  void OnSighting(const Sighting& sighting, const std::string&) override {
    Print("seen " + sighting.signature + " on " + sighting.target + ": " + sighting.finding.what +
          "\n     shrinking it ...\n");
  }

  void OnStored(const Sighting& sighting, const std::string& why) override {
    Print("\n" + FindingBlock(sighting, ++stored_, why, console_.program, out_) + "\n");
  }

  void OnFault(const std::string& what, const std::filesystem::path& file) override {
    Print("FAULT OF THE HARNESS: " + what + "\n  see " + file.string() + "\n");
  }

  void OnProgress(const Progress& progress) override {
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
  const bool live_;
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

}  // namespace

ExitStatus CommandFuzz(CampaignOptions options, const Console& console) {
  if (options.out.empty()) options.out = FreshFolder();
  options.program = console.worker_program;
  if (!options.resume && options.recipe.empty()) {
    std::string targets;
    for (const std::string& target : options.targets) targets += " " + target;
    console.Say("plumb: fuzzing" + targets + " for " + Format(options.GetBudget()) + ", seed " +
                std::to_string(options.seed) + ", into " + options.out.string() + "\n");
  }
  Printer printer(console, options.out);
  const CampaignSummary summary = RunCampaign(std::move(options), *console.interrupt, &printer);
  printer.Clear();
  if (summary.targets.empty()) {
    console.Complain(summary.error);
    return console.Finish(summary.status, 0, 0, ToJson(summary));
  }
  int64_t cases = 0;
  for (const auto& [target, tally] : summary.targets) cases += tally.cases;
  console.Say(SummaryText(summary, console.program));
  if (!summary.error.empty()) console.Complain(summary.error);
  return console.Finish(summary.status, cases, static_cast<int64_t>(summary.sightings.size()),
                        ToJson(summary));
}

}  // namespace plumbline::fuzz
