// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign.h"

#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "fuzz/case_runner.h"
#include "fuzz/crew.h"
#include "fuzz/journal.h"
#include "fuzz/ledger.h"
#include "fuzz/regular_file.h"

namespace plumbline::fuzz {
namespace {

CampaignSummary Refused(ExitStatus status, std::string error, CampaignOptions options) {
  CampaignSummary summary;
  summary.status = status;
  summary.error = std::move(error);
  summary.options = std::move(options);
  return summary;
}

}  // namespace

CampaignSummary RunCampaign(CampaignOptions options, const std::atomic<bool>& interrupt,
                            CampaignObserver* observer) {
  std::string error;
  JournalState state;
  std::unique_ptr<Journal> journal;
  if (options.resume) {
    journal = Journal::Open(options.out, &state, &error);
    if (!journal) return Refused(ExitStatus::kUsage, error, std::move(options));
    // The journal is ours: whoever began these files is gone.
    for (const char* folder : {"findings", "shrinking", "faults"}) {
      RemoveTemporaries(options.out / folder);
    }
    RemoveTemporaries(options.out);
    CampaignOptions& old = state.options;
    options.targets = old.targets;
    options.seed = old.seed;
    options.regime = old.regime;
    options.recipe = old.recipe;
    options.started = old.started;
    if (!options.budget) options.budget = old.budget;
    if (!options.stop_after) options.stop_after = old.stop_after;
    if (!options.case_timeout) options.case_timeout = old.case_timeout;
    if (!state.note.empty()) observer->OnNote(state.note);
    for (const int64_t item : state.unfinished) {
      observer->OnNote("item " + std::to_string(item) +
                       " was in flight when the last run ended: it runs again");
    }
  } else if (std::filesystem::exists(options.out / kJournalName)) {
    return Refused(ExitStatus::kUsage,
                   options.out.string() + " already holds a campaign; go on with it by --resume " +
                       options.out.string(),
                   std::move(options));
  }
  if (error = Objection(options); !error.empty())
    return Refused(ExitStatus::kUsage, error, std::move(options));
  for (const std::string& target : options.targets) {
    WorkerSpec spec;
    spec.target = target;
    spec.program = options.program;
    CaseRunner probe(std::move(spec), options.GetCaseTimeout(), &interrupt);
    if (!probe.Ready(&error)) {
      const auto status = interrupt.load() ? ExitStatus::kInterrupted : ExitStatus::kUnavailable;
      return Refused(status, error, std::move(options));
    }
  }
  std::error_code code;
  std::filesystem::create_directories(options.out / "findings", code);
  if (!code) std::filesystem::create_directories(options.out / "logs", code);
  if (code) {
    return Refused(ExitStatus::kUsage, "cannot create " + options.out.string() + ": " + code.message(),
                   std::move(options));
  }
  if (!options.resume) {
    options.started = UtcStamp();
    journal = Journal::Create(options.out, options, &error);
    if (!journal) return Refused(ExitStatus::kUsage, error, std::move(options));
  }
  Ledger ledger(options, std::move(state), std::move(journal));
  Crew crew(options, &ledger, interrupt, observer);
  crew.Run();
  ledger.Close();

  CampaignSummary summary;
  summary.elapsed = ledger.Elapsed();
  summary.targets = ledger.Tallies();
  summary.sightings = ledger.Sightings();
  summary.error = crew.error();
  summary.time = crew.time();
  summary.status = ledger.Faults() > 0                   ? ExitStatus::kFault
                   : crew.status() != ExitStatus::kClean ? crew.status()
                   : !summary.sightings.empty()          ? ExitStatus::kFindings
                                                         : ExitStatus::kClean;
  summary.options = options;
  const std::string text = ToJson(summary).Dump(2) + "\n";
  if (!WriteWhole(options.out / "summary.json", std::as_bytes(std::span(text)), &error)) {
    summary.status = ExitStatus::kFault;
    if (summary.error.empty()) summary.error = error;
  }
  return summary;
}

}  // namespace plumbline::fuzz
