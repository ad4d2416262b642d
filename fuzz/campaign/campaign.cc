// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign.h"

#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "fuzz/base/disk_space.h"
#include "fuzz/base/regular_file.h"
#include "fuzz/campaign/campaign_state.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/search.h"
#include "fuzz/campaign/stored_cases.h"
#include "fuzz/campaign/worker_pool.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

CampaignSummary Refused(ExitStatus status, std::string error, CampaignOptions options) {
  CampaignSummary summary;
  summary.status = status;
  summary.error = std::move(error);
  summary.options = std::move(options);
  return summary;
}

// The order of a campaign's cases, and their results.
struct Course {
  std::unique_ptr<Plan> plan;
  std::unique_ptr<Search> search;

  // Returns false, with the reason, if there cannot be such a campaign. Fills in options->corpus_stamp.
  bool Begin(CampaignOptions* options, std::string* error) {
    if (*error = Objection(*options); !error->empty()) return false;
    const std::optional<StoredCases> stored = ListStoredCases(*options, error);
    if (!stored) return false;
    options->corpus_stamp = stored->stamp;
    plan = std::make_unique<Plan>(*options, stored->files);
    search = std::make_unique<Search>(*plan, RegimesOf(*options), options->targets.size());
    return true;
  }
};

// Copies from the stored campaign the options that a resumed one must keep.
void TakeOver(const CampaignOptions& old, CampaignOptions* options) {
  options->targets = old.targets;
  options->seed = old.seed;
  options->regime = old.regime;
  options->recipe = old.recipe;
  options->shard = old.shard;
  options->blind = old.blind;
  options->corpus = old.corpus;
  options->corpus_stamp = old.corpus_stamp;
  options->started = old.started;
  if (!options->budget) options->budget = old.budget;
  if (!options->stop_after) options->stop_after = old.stop_after;
  if (!options->case_timeout) options->case_timeout = old.case_timeout;
}

// Returns kClean if every target loads, else the status to end with, and the reason. Notes whether one
// is on a device.
ExitStatus Probe(const CampaignOptions& options, const std::atomic<bool>& interrupt, bool* on_device,
                 std::string* error) {
  for (const std::string& target : options.targets) {
    WorkerSpec spec;
    spec.target = target;
    spec.program = options.program;
    CaseRunner probe(std::move(spec), options.GetCaseTimeout(), &interrupt);
    if (!probe.Ready(error))
      return interrupt.load() ? ExitStatus::kInterrupted : ExitStatus::kUnavailable;
    *on_device = *on_device || probe.hello().device != "cpu";
  }
  return ExitStatus::kClean;
}

CoverageReport ReportOf(const Coverage& coverage) {
  return {.cells = coverage.cells(),
          .cases = coverage.cases(),
          .blind = coverage.blind_cases(),
          .cases_since_new = coverage.cases_since_new(),
          .newest = coverage.newest(),
          .chance = coverage.ChanceOfNew()};
}

}  // namespace

CampaignSummary RunCampaign(CampaignOptions options, const std::atomic<bool>& interrupt,
                            CampaignObserver* observer) {
  std::string error;
  std::error_code code;
  JournalState state;
  std::unique_ptr<Journal> journal;
  Course course;
  if (options.resume) {
    // The journal's header precedes its first case, and decides what each case was.
    bool possible = true;
    const auto on_done = [&](const JournalState& so_far, int64_t item, const CaseRecord& record,
                             std::chrono::milliseconds elapsed) {
      CampaignOptions old = so_far.options;
      if (possible && !course.search) possible = course.Begin(&old, &error);
      if (possible) course.search->Take(item, record, elapsed);
    };
    std::string unreadable;
    journal = Journal::Open(options.out, &state, &unreadable, on_done);
    if (!journal) return Refused(ExitStatus::kUsage, unreadable, std::move(options));
    // This process holds the journal, so the process that began these files has ended.
    for (const char* folder : {"findings", "shrinking", "slips", "faults"}) {
      RemoveTemporaries(options.out / folder);
    }
    RemoveTemporaries(options.out);
    TakeOver(state.options, &options);
    if (!state.note.empty()) observer->OnNote(state.note);
    for (const int64_t item : state.unfinished) {
      observer->OnNote("item " + std::to_string(item) +
                       " was in flight when the last run ended: it runs again");
    }
  } else if (std::filesystem::exists(options.out / kJournalName, code)) {
    return Refused(ExitStatus::kUsage,
                   options.out.string() + " already holds a campaign; go on with it by --resume " +
                       options.out.string(),
                   std::move(options));
  }
  if (error.empty() && !course.search) course.Begin(&options, &error);
  if (!error.empty()) return Refused(ExitStatus::kUsage, error, std::move(options));
  bool on_device = false;
  if (const ExitStatus status = Probe(options, interrupt, &on_device, &error);
      status != ExitStatus::kClean)
    return Refused(status, error, std::move(options));
  if (options.jobs == 0) options.jobs = DefaultJobs(on_device);
  for (const char* name : {"findings", "logs"}) {
    const std::filesystem::path folder = options.out / name;
    std::filesystem::create_directories(folder, code);
    if (!code) continue;
    error = "cannot create " + folder.string() + ": " + code.message();
    return Refused(ExitStatus::kUsage, error, std::move(options));
  }
  if (error = DiskShortage(options.out, options.least_free); !error.empty())
    return Refused(ExitStatus::kFault, error, std::move(options));
  if (!options.resume) {
    options.started = UtcStamp();
    journal = Journal::Create(options.out, options, &error);
    if (!journal) {
      // If the journal was not created, the folder is not writable; if it was created and not written,
      // the disk is at fault.
      const bool created = std::filesystem::exists(options.out / kJournalName, code);
      return Refused(created ? ExitStatus::kFault : ExitStatus::kUsage, error, std::move(options));
    }
  }
  CampaignState campaign_state(options, *course.plan, course.search.get(), std::move(state),
                               std::move(journal));
  WorkerPool pool(options, &campaign_state, interrupt, observer);
  pool.Run();
  campaign_state.Close();

  CampaignSummary summary;
  summary.elapsed = campaign_state.Elapsed();
  summary.targets = campaign_state.Tallies();
  summary.sightings = campaign_state.Sightings();
  for (size_t t = 0; t < options.targets.size(); ++t) {
    summary.coverage.push_back(ReportOf(course.search->coverage(t)));
    summary.yields.push_back(course.search->yields(t));
  }
  summary.error = pool.error();
  summary.time = pool.time();
  summary.status = Gravest({{ExitStatus::kFault, campaign_state.Faults() > 0},
                            {pool.status(), true},
                            {ExitStatus::kFindings, !summary.sightings.empty()}});
  summary.options = options;
  const std::string text = ToJson(summary).Dump(2) + "\n";
  if (!WriteWhole(options.out / "summary.json", std::as_bytes(std::span(text)), &error)) {
    summary.status = ExitStatus::kFault;
    if (summary.error.empty()) summary.error = error;
  }
  return summary;
}

}  // namespace plumbline::fuzz
