// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign.h"

#include <filesystem>
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

// Copies from the stored campaign the options that a resumed one must keep.
void TakeOver(const CampaignOptions& old, CampaignOptions* options) {
  options->targets = old.targets;
  static_cast<CaseOptions&>(*options) = old;
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
    CaseRunner probe({.target = target, .program = options.program, .production = options.production},
                     options.GetCaseTimeout(), &interrupt);
    if (!probe.Ready(error))
      return interrupt.load() ? ExitStatus::kInterrupted : ExitStatus::kUnavailable;
    *on_device = *on_device || probe.hello().device != "cpu";
  }
  return ExitStatus::kClean;
}

CoverageReport ReportOf(const Coverage& coverage, const LevelTuples& covered) {
  return {.cells = coverage.cells(),
          .cases = coverage.cases(),
          .blind = coverage.blind_cases(),
          .cases_since_new = coverage.cases_since_new(),
          .newest = coverage.newest(),
          .chance = coverage.ChanceOfNew(),
          .pairs = covered.pairs(),
          .pairs_judged = covered.pairs_marked(),
          .triples = covered.triples(),
          .triples_judged = covered.triples_marked()};
}

}  // namespace

Campaign::Campaign(CampaignOptions options, const std::atomic<bool>& interrupt)
    : options_(std::move(options)), interrupt_(interrupt) {
  JournalState state;
  std::unique_ptr<Journal> journal;
  if (!(options_.resume ? Resume(&state, &journal) : Begin(&journal))) return;
  state_ = std::make_unique<CampaignState>(options_, *plan_, search_.get(), std::move(state),
                                           std::move(journal));
  pool_ = std::make_unique<WorkerPool>(options_, state_.get(), interrupt_);
}

Campaign::~Campaign() = default;

bool Campaign::Resume(JournalState* state, std::unique_ptr<Journal>* journal) {
  std::string error;
  *journal = Journal::Open(options_.out, &error);
  const auto reader = *journal ? JournalReader::Open(options_.out, &error) : nullptr;
  if (!reader) return Refuse(ExitStatus::kUsage, error);
  if (options_.production && !reader->options().production) {
    return Refuse(ExitStatus::kUsage,
                  options_.out.string() + " holds no campaign of cases of production size");
  }
  // The journal's header decides what each case was.
  TakeOver(reader->options(), &options_);
  if (!MakePlan()) return false;
  while (std::optional<DoneItem> done = reader->Next(&error)) {
    search_->Take(done->item, std::move(done->record), done->elapsed, reader->plan() == kPlan);
  }
  if (!error.empty()) return Refuse(ExitStatus::kUsage, error);
  *state = reader->Finish();
  if (!(*journal)->Continue(*reader, *state, &error)) return Refuse(ExitStatus::kUsage, error);
  // This process holds the journal, so the process that began these files has ended.
  for (const char* folder : {"findings", "shrinking", "slips", "faults", "."}) {
    RemoveTemporaries(options_.out / folder);
  }
  if (!state->note.empty()) events_.push_back({.text = state->note});
  if (reader->plan() != kPlan) {
    events_.push_back({.text = "the cases so far are of an earlier order of cases (plan " +
                               std::to_string(reader->plan()) + ", now " + std::to_string(kPlan) +
                               "): they are counted, but neither as blind nor for coverage"});
  }
  for (const int64_t item : state->unfinished) {
    events_.push_back({.text = "item " + std::to_string(item) +
                               " was in flight when the last run ended: it runs again"});
  }
  return Prepare();
}

bool Campaign::Begin(std::unique_ptr<Journal>* journal) {
  std::string error = Journal::Taken(options_.out);
  if (!error.empty()) return Refuse(ExitStatus::kUsage, error);
  if (!MakePlan() || !Prepare()) return false;
  options_.started = UtcStamp();
  *journal = Journal::Create(options_.out, options_, &error);
  if (*journal) return true;
  // If the journal was not created, the folder is not writable; if it was created and not written, the
  // disk is at fault.
  const bool created = !Journal::Taken(options_.out).empty();
  return Refuse(created ? ExitStatus::kFault : ExitStatus::kUsage, error);
}

bool Campaign::MakePlan() {
  std::string error = Objection(options_);
  if (!error.empty()) return Refuse(ExitStatus::kUsage, error);
  const std::optional<StoredCases> stored = ListStoredCases(options_, &error);
  if (!stored) return Refuse(ExitStatus::kUsage, error);
  options_.corpus_stamp = stored->stamp;
  plan_ = std::make_unique<Plan>(options_, stored->files);
  search_ = std::make_unique<Search>(*plan_, RegimesOf(options_), options_.targets.size());
  return true;
}

// Loads every target once, and makes the folders.
bool Campaign::Prepare() {
  bool on_device = false;
  std::string error;
  if (const ExitStatus status = Probe(options_, interrupt_, &on_device, &error);
      status != ExitStatus::kClean)
    return Refuse(status, error);
  // A case of production size may take all of the device's memory.
  if (options_.production) options_.jobs = 1;
  if (options_.jobs == 0) options_.jobs = DefaultJobs(on_device);
  for (const char* name : {"findings", "logs"}) {
    const std::filesystem::path folder = options_.out / name;
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    if (!code) continue;
    return Refuse(ExitStatus::kUsage, "cannot create " + folder.string() + ": " + code.message());
  }
  error = DiskShortage(options_.out, options_.least_free);
  return error.empty() || Refuse(ExitStatus::kFault, error);
}

bool Campaign::Refuse(ExitStatus status, const std::string& error) {
  status_ = status;
  error_ = error;
  return false;
}

bool Campaign::Next(std::chrono::milliseconds patience, std::vector<CampaignEvent>* events) {
  *events = std::exchange(events_, {});
  return !events->empty() || (pool_ && pool_->Next(patience, events));
}

Progress Campaign::GetProgress() { return pool_->GetProgress(); }

CampaignSummary Campaign::Finish() {
  CampaignSummary summary;
  summary.status = status_;
  summary.error = error_;
  summary.options = options_;
  if (!pool_) return summary;
  state_->Close();
  summary.elapsed = state_->Elapsed();
  summary.targets = state_->Tallies();
  summary.sightings = state_->Sightings();
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    summary.coverage.push_back(ReportOf(search_->coverage(t), search_->covered(t)));
    summary.yields.push_back(search_->yields(t));
  }
  summary.error = pool_->error();
  summary.time = pool_->time();
  summary.status =
      Gravest({state_->Faults() > 0 ? ExitStatus::kFault : ExitStatus::kClean, pool_->status(),
               summary.sightings.empty() ? ExitStatus::kClean : ExitStatus::kFindings});
  const std::string text = ToJson(summary).Dump(2) + "\n";
  std::string error;
  if (!WriteWhole(options_.out / "summary.json", std::as_bytes(std::span(text)), &error)) {
    summary.status = ExitStatus::kFault;
    if (summary.error.empty()) summary.error = error;
  }
  return summary;
}

CampaignSummary RunCampaign(CampaignOptions options, const std::atomic<bool>& interrupt) {
  Campaign campaign(std::move(options), interrupt);
  std::vector<CampaignEvent> events;
  while (campaign.Next(std::chrono::seconds(1), &events)) {
  }
  return campaign.Finish();
}

}  // namespace plumbline::fuzz
