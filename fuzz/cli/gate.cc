// SPDX-License-Identifier: Apache-2.0
//
// A gate is a campaign of fixed cases for a build that blocks a merge: fuzz/campaign/GATE.md.
#include <stdlib.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fuzz/base/record_file.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/search/palette.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/gate_report.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/cli/watched_campaign.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int64_t kCases = 2'000;
constexpr int64_t kMostCases = 10'000'000;
constexpr uint64_t kSeed = 1;
// The deadline of a case. It is the one clock that has a say, so it is far above what any case takes on
// a busy machine, a kernel that is compiled for its shape included.
constexpr milliseconds kDeadline{120'000};
// Shrinking takes some hundred tries at most, with few exceptions.
constexpr int64_t kShrinkTries = 3'000;
constexpr const char* kSettings = ".plumbline/gate.json";
constexpr const char* kKnown = ".plumbline/known.json";

struct GateCommand {
  std::string target, contract;
  std::optional<uint64_t> seed;
  std::optional<int64_t> cases;
  fs::path corpus, known, junit, out;
  std::optional<int64_t> palette;
  int jobs = 0;
};

// What a repository stores for its gate. What the command line says goes first.
struct GateSettings {
  uint64_t seed = kSeed;
  int64_t cases = kCases;
  int64_t palette = 0;
};

void Fields(FieldVisitor& io, GateSettings& settings) {
  io.AllowAbsent();
  // A number of 64 bits may pass int64, so it is text.
  io.AsText("seed", settings.seed, std::to_string(settings.seed), ParseSeed);
  io("cases", settings.cases, 0, kMostCases);
  io("palette", settings.palette, 0, kMostPalette);
}

// Reads .plumbline/gate.json below the current folder, if there is one.
bool ReadSettings(GateSettings* settings, std::string* error) {
  std::error_code code;
  if (!fs::exists(kSettings, code)) return true;
  const auto read = ReadRecord<GateSettings>(kSettings, uint64_t{1} << 16, "gate", error);
  if (read) *settings = *read;
  return read.has_value();
}

class Gate {
 public:
  Gate(const GateCommand& command, const Console& console) : command_(command), console_(console) {}

  ExitStatus Run();

 private:
  // These return false, with error_, if the gate cannot begin.
  bool TakeOptions();
  bool MakeFolder();
  void Announce() const;
  void Tell(const CampaignEvent& event);
  CampaignSummary RunCases();
  void WriteJUnit(GateOutcome* outcome);

  const GateCommand& command_;
  const Console& console_;
  CampaignOptions options_;
  fs::path known_;
  bool temporary_ = false;
  std::string error_;
};

bool Gate::TakeOptions() {
  GateSettings settings;
  if (!ReadSettings(&settings, &error_)) return false;
  options_.targets = {HeldTo(command_.target, command_.contract)};
  options_.seed = command_.seed.value_or(settings.seed);
  options_.budget = Budget{.time = milliseconds(0), .cases = command_.cases.value_or(settings.cases)};
  // The time of a first call must not decide what is drawn.
  options_.palette = command_.palette.value_or(settings.palette);
  options_.gate = true;
  options_.shrink_tries = kShrinkTries;
  options_.case_timeout = kDeadline;
  options_.jobs = command_.jobs;
  options_.program = console_.worker_program;
  options_.corpus = command_.corpus;
  std::error_code code;
  for (const char* folder : {".plumbline/corpus", "corpus"}) {
    const CaseListing listing = ListCases(folder);
    const bool holds = !listing.files.empty() || (!listing.unreadable.empty() && !listing.empty);
    // A folder of this name may be another's, or as yet without a case.
    if (options_.corpus.empty() && fs::is_directory(folder, code) && holds) options_.corpus = folder;
  }
  known_ = command_.known;
  if (known_.empty() && fs::exists(kKnown, code)) known_ = kKnown;
  if (!known_.empty()) {
    auto known = ReadKnown(known_, &error_);
    if (!known) return false;
    options_.known = *std::move(known);
  }
  return true;
}

bool Gate::MakeFolder() {
  temporary_ = command_.out.empty();
  options_.out = command_.out;
  if (!temporary_) return true;
  std::error_code code;
  std::string name = (fs::temp_directory_path(code) / "plumb-gate-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    error_ = "cannot create a folder as " + name + "; name one by --out";
    return false;
  }
  options_.out = name;
  return true;
}

void Gate::Announce() const {
  std::string text = "plumb: gate of " + options_.targets.front() + ": ";
  text += options_.corpus.empty() ? "no stored cases (no --corpus, .plumbline/corpus or corpus here)"
                                  : "the stored cases in " + options_.corpus.string();
  text += ", then " + std::to_string(options_.budget->cases) + " cases of seed " +
          std::to_string(options_.seed) + "\n";
  if (!known_.empty()) {
    text += "plumb: " + std::to_string(options_.known.size()) + " accepted findings in " +
            known_.string() + "\n";
  }
  console_.Say(text);
}

void Gate::Tell(const CampaignEvent& event) {
  switch (event.kind) {
    case CampaignEvent::Kind::kNote:
      return console_.Say("note: " + event.text + "\n");
    case CampaignEvent::Kind::kSighting:
    case CampaignEvent::Kind::kStored:
      return;  // GateText has them, in the order of their cases
    case CampaignEvent::Kind::kFault:
      return SayFault(event, console_);
  }
}

void Gate::WriteJUnit(GateOutcome* outcome) {
  if (command_.junit.empty()) return;
  const std::string xml =
      JUnitXml("plumb gate " + outcome->summary.options.targets.front(), GateResults(*outcome));
  std::string error;
  if (WriteWhole(command_.junit, std::as_bytes(std::span(xml)), &error)) return;
  console_.Complain(error);
  outcome->summary.status = ExitStatus::kFault;
}

CampaignSummary Gate::RunCases() {
  if (std::string why = WhyNoTarget(options_.targets.front()); !why.empty()) {
    CampaignSummary summary;
    summary.status = ExitStatus::kUnavailable;
    summary.error = std::move(why);
    summary.options = options_;
    return summary;
  }
  Announce();
  return RunWatched(options_, console_, [this](const CampaignEvent& event) { Tell(event); });
}

ExitStatus Gate::Run() {
  if (!TakeOptions() || !MakeFolder()) {
    console_.Complain(error_);
    return console_.Finish(ExitStatus::kUsage);
  }
  const fs::path out = options_.out;
  GateOutcome outcome = OutcomeOf(RunCases(), known_);
  const CampaignSummary& summary = outcome.summary;
  if (!summary.error.empty()) console_.Complain(summary.error);
  WriteJUnit(&outcome);
  console_.Say(GateText(outcome, console_.program));
  const bool found = CountNotAccepted(summary) > 0 || !summary.wrong_slips.empty() ||
                     !summary.suspect_slips.empty() || summary.status == ExitStatus::kFault;
  if (temporary_ && !found) {
    std::error_code ignored;
    fs::remove_all(out, ignored);
  } else if (!summary.targets.empty()) {
    console_.Say("everything lies in " + out.string() + "\n");
  }
  Counts counts = CountsOf(summary);
  counts.findings += static_cast<int64_t>(outcome.fixed.size());
  Json json = ToJson(summary);
  json["findings"] = counts.findings;
  for (const size_t i : outcome.fixed) json["fixed"].Append(ToJson(summary.options.known[i]));
  for (const size_t i : outcome.not_seen) json["not_seen"].Append(ToJson(summary.options.known[i]));
  return console_.Finish(summary.status, counts, std::move(json));
}

}  // namespace

void AddGate(CommandLine* line) {
  auto options = std::make_shared<GateCommand>();
  CLI::App* sub = line->Add("gate", "Check a build: the same cases and the same verdict everywhere",
                            "plumb gate plugin:./my_kernel.so --junit gate.xml",
                            [=] { return Gate(*options, line->console).Run(); });
  sub->add_option("target", options->target, "a target, as `plumb fuzz --target` takes it")->required();
  AddContract(sub, &options->contract);
  sub->add_option("--corpus", options->corpus,
                  "stored cases, replayed first [.plumbline/corpus, or corpus, if there is one]");
  AddPython(sub);
  sub->add_option("--cases", options->cases, "drawn cases after them [2000]")
      ->check(CLI::Range(int64_t{0}, kMostCases));
  AddParsed(sub, "--seed", &options->seed, ParseSeed,
            "of the drawn cases, decimal or 0x hexadecimal [1]");
  sub->add_option("--palette", options->palette,
                  "shapes of the drawn cases, for a target that compiles for each; 0: any [0]")
      ->check(CLI::Range(int64_t{0}, kMostPalette));
  sub->add_option("--known", options->known,
                  "findings that are accepted, a JSON file [.plumbline/known.json, if there is one]");
  sub->add_option("--junit", options->junit, "write the results to this file as JUnit XML");
  sub->add_option("--out", options->out,
                  "folder for what is found [a temporary one, kept if something is]");
  sub->add_option("--jobs", options->jobs, "cases at the same time [one a hardware thread]")
      ->check(CLI::Range(1, 1024));
}

}  // namespace plumbline::fuzz
