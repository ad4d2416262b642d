// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign.h"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "fuzz/base/disk_space.h"
#include "fuzz/base/regular_file.h"
#include "fuzz/base/text.h"
#include "fuzz/campaign/accepted.h"
#include "fuzz/campaign/campaign_state.h"
#include "fuzz/campaign/first_call.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/palette.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/search.h"
#include "fuzz/campaign/stored_cases.h"
#include "fuzz/campaign/worker_pool.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/case_runner.h"
#include "fuzz/worker/command.h"

namespace plumbline::fuzz {
namespace {

// Copies from the stored campaign the options that a resumed one must keep.
void TakeOver(const CampaignOptions& old, CampaignOptions* options) {
  options->targets = old.targets;
  static_cast<CaseOptions&>(*options) = old;
  options->capabilities = old.capabilities;
  options->palette = old.palette;
  options->palette_by_class = old.palette_by_class;
  options->corpus = old.corpus;
  options->corpus_stamp = old.corpus_stamp;
  options->inferred = old.inferred;
  options->started = old.started;
  options->python = old.python;
  if (!options->budget) options->budget = old.budget;
  if (!options->stop_after) options->stop_after = old.stop_after;
  if (!options->case_timeout) options->case_timeout = old.case_timeout;
  if (!options->shrink_tries) options->shrink_tries = old.shrink_tries;
}

// Returns the interpreter by which a target in Python is run; empty where there is none.
std::string InterpreterOf(const CampaignOptions& options) {
  const auto python = std::ranges::find_if(options.targets, IsPython);
  if (python == options.targets.end()) return {};
  std::string error;  // the worker says it
  const auto command = CommandFor(*python, options.program, &error);
  std::error_code code;
  return command ? std::filesystem::absolute(command->program, code).string() : std::string();
}

// What this target may do without a verdict, if its contract is not its own or leaves keys out.
std::vector<std::string> NotShownOf(const std::string& target, const Description& description) {
  const bool own = SplitTarget(target).second.empty() && !description.assumptions.any();
  return own ? description.cannot_show : NotShown(description);
}

// Says that a resumed campaign has no budget left; empty if it has. What was in flight runs again, and
// what was found and not stored is shrunk, nevertheless.
std::string Spent(const CampaignOptions& options, const JournalState& state) {
  const Budget budget = options.GetBudget();
  if (!options.recipe.empty()) return {};
  const std::string head = "the budget of " + Format(budget) + " is spent";
  if (const std::optional<int64_t> cases = options.Cases()) {
    const int64_t done = std::count(state.done.begin(), state.done.end(), true);
    if (done < *cases) return {};
    return head + ": no further case is drawn; a larger --budget goes on";
  }
  if (state.elapsed < budget.time) return {};
  const auto minute_more =
      std::chrono::ceil<std::chrono::seconds>(state.elapsed) + std::chrono::minutes(1);
  return head +
         Text(" (%.1f s): no further case is drawn; --budget ",
              std::chrono::duration<double>(state.elapsed).count()) +
         Format(Budget{.time = minute_more}) + " goes on for a minute";
}

// What loading every target once has shown.
struct Probed {
  bool on_device = false;                 // one of them
  std::vector<Description> descriptions;  // by target
  std::vector<std::string> capabilities;  // of each, as JSON
  FirstCall first_call;                   // of the slowest
};

// Returns the capabilities in a description, as JSON.
std::string CapabilitiesIn(const std::string& description) {
  std::string ignored;
  const std::optional<Json> json = Json::Parse(description, &ignored);  // the worker has parsed it
  const Json* const capabilities = json ? json->Find("capabilities") : nullptr;
  return capabilities != nullptr ? capabilities->Dump() : "{}";
}

// Returns kClean if every target loads, else the status to end with, and the reason. First calls are
// measured only if that decides the palette.
ExitStatus Probe(const CampaignOptions& options, const std::atomic<bool>& interrupt, Probed* probed,
                 std::string* error) {
  const bool measure = !options.palette && options.recipe.empty() && !options.production;
  for (const std::string& target : options.targets) {
    WorkerSpec spec{.target = target, .program = options.program, .production = options.production};
    if (measure) spec.first_call = options.first_call_timeout;
    CaseRunner probe(std::move(spec), options.GetCaseTimeout(), &interrupt);
    if (!probe.Ready(error))
      return interrupt.load() ? ExitStatus::kInterrupted : ExitStatus::kUnavailable;
    probed->on_device = probed->on_device || probe.hello().device != "cpu";
    std::optional<Description> description = ParseDescription(probe.hello().description, error);
    if (!description) return ExitStatus::kUnavailable;  // the worker has parsed it
    probed->descriptions.push_back(*std::move(description));
    probed->capabilities.push_back(CapabilitiesIn(probe.hello().description));
    if (!measure) continue;
    const Capabilities& can = probed->descriptions.back().capabilities;
    const FirstCall first_call = MeasureFirstCall(&probe, can);
    if (first_call.seconds > probed->first_call.seconds) probed->first_call = first_call;
  }
  return ExitStatus::kClean;
}

// Returns how each target gets its draws.
std::vector<TargetDraws> DrawsOf(const CampaignOptions& options) {
  if (options.production || options.capabilities.empty()) {
    return std::vector<TargetDraws>(options.targets.size());
  }
  std::vector<TargetDraws> draws;
  for (const std::string& text : options.capabilities) {
    std::string ignored;  // CapabilitiesIn has written it
    draws.emplace_back(ParseCapabilities(text, &ignored).value_or(Capabilities{}), RegimesOf(options),
                       options.seed, options.palette.value_or(0), options.palette_by_class);
  }
  return draws;
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
  if (Journal::Taken(options_.out).empty()) {
    return Refuse(ExitStatus::kUsage, options_.out.string() + " holds no campaign to go on with");
  }
  std::string error;
  *journal = Journal::Open(options_.out, &error);
  const auto reader = *journal ? JournalReader::Open(options_.out, &error) : nullptr;
  if (!reader) return Refuse(ExitStatus::kUsage, error);
  if (options_.production && !reader->options().production) {
    return Refuse(ExitStatus::kUsage,
                  options_.out.string() + " holds no campaign of cases of production size");
  }
  if (reader->options().gate) {
    return Refuse(ExitStatus::kUsage,
                  options_.out.string() + " holds a gate, which is run again and not continued");
  }
  // The journal's header decides what each case was.
  TakeOver(reader->options(), &options_);
  if (!options_.python.empty()) setenv(kPythonVariable, options_.python.c_str(), 0);
  if (!MakePlan() || !MakeSearch()) return false;
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
  if (const std::string spent = Spent(options_, *state); !spent.empty()) {
    events_.push_back({.text = spent});
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
  if (!MakePlan() || !Prepare() || !MakeSearch()) return false;
  options_.started = UtcStamp();
  options_.python = InterpreterOf(options_);
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
  unreadable_ = stored->unreadable;
  for (const std::string& line : unreadable_) events_.push_back({.text = "corpus: " + line});
  plan_ = std::make_unique<Plan>(options_, stored->files);
  return true;
}

bool Campaign::MakeSearch() {
  std::vector<TargetDraws> draws = DrawsOf(options_);
  for (size_t t = 0; t < draws.size() && !options_.regime.empty(); ++t) {
    if (draws[t].unreached().empty()) continue;
    return Refuse(ExitStatus::kUsage, "regime '" + options_.regime + "': the capabilities of target " +
                                          options_.targets[t] + " leave nothing of it");
  }
  search_ = std::make_unique<Search>(*plan_, RegimesOf(options_), std::move(draws));
  return true;
}

// Loads every target once, and makes the folders.
bool Campaign::Prepare() {
  Probed probed;
  std::string error;
  if (const ExitStatus status = Probe(options_, interrupt_, &probed, &error);
      status != ExitStatus::kClean)
    return Refuse(status, error);
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    not_shown_.push_back(NotShownOf(options_.targets[t], probed.descriptions[t]));
  }
  // A resumed campaign keeps what its cases were drawn within.
  if (!options_.resume) options_.capabilities = std::move(probed.capabilities);
  ChoosePalette(probed.first_call);
  // A case of production size may take all of the device's memory.
  if (options_.production) options_.jobs = 1;
  if (options_.jobs == 0) options_.jobs = DefaultJobs(probed.on_device);
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

// Decides the number of shapes, unless it was given.
void Campaign::ChoosePalette(const FirstCall& first_call) {
  if (options_.palette) return;
  options_.palette = 0;
  if (first_call.seconds < kSlowFirstCall) return;
  const Budget budget = options_.GetBudget();
  // An entry by classes is compiled for some three times, for other strides of the gradients and for an
  // ignore_index beyond 32 bits. Half as many entries as of shapes keep first calls near their share.
  constexpr double kDearer = 2;
  options_.palette = PaletteSize(first_call.seconds * (first_call.by_class ? kDearer : 1),
                                 std::chrono::duration<double>(budget.time).count(), budget.cases);
  options_.palette_by_class = first_call.by_class;
  events_.push_back(
      {.text = Text("a first call of a %s takes %.2g s: cases have %" PRId64 " %s (--palette)",
                    first_call.by_class ? "class of shapes" : "shape", first_call.seconds,
                    *options_.palette, first_call.by_class ? "of them" : "shapes")});
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

namespace {

// Adds the cases that were seen while another was shrunk and that are not accepted.
void AddSlips(CampaignSummary* summary) {
  const CampaignOptions& options = summary->options;
  for (const std::filesystem::path& file : ListCases(options.out / "slips").files) {
    std::string ignored;
    const std::optional<Case> c = ReadCase(file, &ignored);
    if (!c || Accepting(options.known, c->target, c->finding.Signature(), c->bucket.id)) continue;
    (c->finding.suspect ? summary->suspect_slips : summary->wrong_slips).push_back(file.string());
  }
}

// The status of what is not accepted.
ExitStatus StatusOf(const CampaignSummary& summary) {
  std::vector<Finding> findings;
  for (const auto* list : {&summary.sightings, &summary.parts}) {
    for (const Sighting& sighting : *list) {
      if (!summary.accepted.contains({sighting.target, sighting.signature}))
        findings.push_back(sighting.finding);
    }
  }
  return StatusOf(findings);
}

}  // namespace

CampaignSummary Campaign::Finish() {
  CampaignSummary summary;
  summary.status = status_;
  summary.error = error_;
  summary.options = options_;
  if (!pool_) return summary;
  state_->Close();
  summary.elapsed = state_->Elapsed();
  summary.targets = state_->Tallies();
  for (Sighting& sighting : state_->AllSightings()) {
    (sighting.part_of.empty() ? summary.sightings : summary.parts).push_back(std::move(sighting));
  }
  summary.ranking = RankFindings(summary.sightings, summary.parts, state_->Reaches());
  summary.not_shown = not_shown_;
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    summary.coverage.push_back(ReportOf(search_->coverage(t), search_->covered(t)));
    summary.yields.push_back(search_->yields(t));
  }
  summary.error = pool_->error();
  summary.time = pool_->time();
  summary.unreadable = unreadable_;
  if (!options_.known.empty()) {
    summary.accepted = AcceptedOf(summary);
    if (options_.gate) KeepOneBucket(*plan_, search_.get(), interrupt_, &summary);
  }
  const auto note = [&](bool happened, ExitStatus as) {
    if (happened) summary.status = Gravest({summary.status, as});
  };
  note(true, pool_->status());
  note(state_->Faults() > 0, ExitStatus::kFault);
  note(true, StatusOf(summary));
  if (summary.status != ExitStatus::kFindings && !summary.sightings.empty()) {
    AddSlips(&summary);
    note(!summary.wrong_slips.empty(), ExitStatus::kFindings);
    note(!summary.suspect_slips.empty(), ExitStatus::kSuspect);
  }
  note(!unreadable_.empty(), ExitStatus::kUsage);
  for (const auto& [target, tally] : summary.targets) {
    // A case that the user wrote may be skipped on purpose, and the summary says that it was.
    if (options_.recipe.empty()) note(true, tally.Thinness());
  }
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
