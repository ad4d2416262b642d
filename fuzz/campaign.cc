// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "fuzz/arbiter_schedule.h"
#include "fuzz/case_file.h"
#include "fuzz/case_name.h"
#include "fuzz/case_runner.h"
#include "fuzz/journal.h"
#include "fuzz/ledger.h"
#include "fuzz/pursuit.h"
#include "fuzz/recipe.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// A harness that contradicts itself is not worth running on: enough to see a pattern, then it stops.
constexpr int64_t kMostFaults = 10;
// Shrinking under a budget of time may overrun it by this much, or the last finding would stay large.
constexpr milliseconds kLeastShrinkTime{5'000};

class Stopwatch {
 public:
  double Lap() const {  // seconds
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void Restart() { begin_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The threads of one run. Each has a worker of its own for every target, takes what is to be shrunk
// before it takes a new case, and ends when there is neither.
class Crew {
 public:
  Crew(const CampaignOptions& options, Ledger* ledger, const std::atomic<bool>& interrupt,
       CampaignObserver* observer)
      : options_(options), ledger_(*ledger), interrupt_(interrupt), observer_(*observer) {
    const auto targets = static_cast<double>(options.targets.size());
    for (size_t t = 0; t < options.targets.size(); ++t) {
      schedules_.emplace_back(kArbitratedPerMinute / targets);
    }
  }

  void Run();
  // Why the run ended early; kClean if it did not, kInterrupted if work was left behind.
  ExitStatus status() const {
    return failed_ != ExitStatus::kClean ? failed_
           : cut_short_                  ? ExitStatus::kInterrupted
                                         : ExitStatus::kClean;
  }
  const std::string& error() const { return error_; }

 private:
  using Runners = std::vector<std::unique_ptr<CaseRunner>>;

  void Work(int job);
  Runners MakeRunners(int job) const;
  // Both: false if this thread is to end.
  bool RunItem(const Item& item, CaseRunner* runner);
  bool PursueSighting(const Sighting& sighting, int job, Runners* runners);
  Pursued PursueFrom(const Sighting& sighting, int job, CaseRunner* runner);
  void StoreCase(const Sighting& sighting, Pursued pursued);
  void StoreFault(const std::string& name, const std::string& what, Json witness, const Case* c);
  // Notes why nothing more can be done; kInterrupted: work is left behind.
  void End(ExitStatus status, const std::string& error);
  bool Ending();
  void SetActivity(int job, std::string text);
  Progress Snapshot();

  const CampaignOptions& options_;
  Ledger& ledger_;
  const std::atomic<bool>& interrupt_;
  const Stopwatch begin_;
  std::deque<ArbiterSchedule> schedules_;  // by target

  std::mutex observer_mutex_;
  CampaignObserver& observer_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::string> activity_;  // by job
  int working_ = 0;
  bool cut_short_ = false;
  ExitStatus failed_ = ExitStatus::kClean;
  std::string error_;
};

void Crew::Run() {
  const int jobs = options_.jobs > 0
                       ? options_.jobs
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  activity_.resize(static_cast<size_t>(jobs));
  working_ = jobs;
  std::vector<std::thread> threads;
  for (int job = 0; job < jobs; ++job) threads.emplace_back([this, job] { Work(job); });
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, milliseconds(200), [this] { return working_ == 0; })) break;
    }
    const Progress progress = Snapshot();
    const std::lock_guard lock(observer_mutex_);
    observer_.OnProgress(progress);
  }
  for (std::thread& thread : threads) thread.join();
}

void Crew::Work(int job) {
  Runners runners = MakeRunners(job);
  while (!Ending()) {
    if (const std::optional<Sighting> sighting = ledger_.NextPending()) {
      if (!PursueSighting(*sighting, job, &runners)) break;
    } else if (const std::optional<Item> item = ledger_.NextItem()) {
      if (interrupt_.load()) {
        End(ExitStatus::kInterrupted, "");
      } else if (!RunItem(*item, runners[item->target].get())) {
        break;
      }
    } else {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

Crew::Runners Crew::MakeRunners(int job) const {
  Runners runners;
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    WorkerSpec spec;
    spec.target = options_.targets[t];
    spec.program = options_.program;
    spec.log =
        options_.out / "logs" / ("worker-" + std::to_string(job) + "-" + std::to_string(t) + ".log");
    runners.push_back(
        std::make_unique<CaseRunner>(std::move(spec), options_.GetCaseTimeout(), &interrupt_));
  }
  return runners;
}

bool Crew::RunItem(const Item& item, CaseRunner* runner) {
  ledger_.Start(item);
  const Request request = RequestFor(item.recipe, item.seed);
  Stopwatch watch;
  Judged judged = runner->Run(request);
  const double seconds = watch.Lap();
  // The arbiter speaks before anything becomes a finding. What is known already is only counted: asking
  // for each of thousands of failing cases would take minutes where judging takes milliseconds.
  if (judged.kind == Judged::Kind::kJudged && ledger_.ShowsNew(item, judged.result)) {
    judged = runner->Confirm(request, std::move(judged));
  } else if (judged.kind == Judged::Kind::kJudged && judged.result.verdict == oracle::Verdict::kPass &&
             judged.result.harness_fault.empty() &&
             schedules_[item.target].Due(item.regime, item.arbiter_cost, seconds, begin_.Lap())) {
    watch.Restart();
    judged = runner->AskOnPass(request, std::move(judged));
    schedules_[item.target].Paid(item.regime, item.arbiter_cost, watch.Lap(), judged.result.arbitrated);
  }
  if (judged.kind != Judged::Kind::kJudged) {
    const bool gone = judged.kind == Judged::Kind::kUnavailable;
    End(gone ? ExitStatus::kUnavailable : ExitStatus::kInterrupted, judged.error);
    return false;
  }
  if (!judged.result.harness_fault.empty()) {
    Json witness;
    witness["target"] = runner->target();
    witness["recipe"] = item.recipe;
    witness["result"] = ToJson(judged.result);
    StoreFault("item-" + std::to_string(item.number), judged.result.harness_fault, std::move(witness),
               nullptr);
  }
  for (const Sighting& sighting : ledger_.Record(item, judged)) {
    const std::lock_guard lock(observer_mutex_);
    observer_.OnSighting(sighting, WhyOf(sighting.regime));
  }
  if (const std::string failure = ledger_.Failure(); !failure.empty()) End(ExitStatus::kFault, failure);
  return true;
}

bool Crew::PursueSighting(const Sighting& sighting, int job, Runners* runners) {
  const auto target = std::find(options_.targets.begin(), options_.targets.end(), sighting.target);
  CaseRunner& runner = *(*runners)[static_cast<size_t>(target - options_.targets.begin())];
  SetActivity(job, "shrinking " + sighting.signature);
  Pursued pursued = PursueFrom(sighting, job, &runner);
  SetActivity(job, "");
  if (pursued.kind != Pursued::Kind::kCase) {
    const bool gone = pursued.kind == Pursued::Kind::kUnavailable;
    End(gone ? ExitStatus::kUnavailable : ExitStatus::kInterrupted, pursued.error);
    return false;
  }
  StoreCase(sighting, std::move(pursued));
  return true;
}

Pursued Crew::PursueFrom(const Sighting& sighting, int job, CaseRunner* runner) {
  Recipe recipe;
  std::string unused;
  Parse(sighting.recipe, &recipe, &unused);
  const FailingProblem start{.problem = Expand(recipe),
                             .finding = sighting.finding,
                             .recipe = sighting.recipe,
                             .why = WhyOf(sighting.regime),
                             .seed = recipe.seed};
  const int64_t values = ValueCount(start.problem);

  PursuitOptions pursuit;
  pursuit.shrink_time = options_.shrink_time;
  if (!options_.Cases()) {
    const milliseconds left = options_.GetBudget().time - ledger_.Elapsed();
    pursuit.shrink_time = std::min(pursuit.shrink_time, std::max(left, kLeastShrinkTime));
  }
  // What did not happen again gives the shrinker nothing to hold on to.
  if (!sighting.reproduced) pursuit.shrink_time = milliseconds(0);
  std::error_code ignored;
  std::filesystem::create_directories(options_.out / "shrinking", ignored);
  std::string name = std::to_string(sighting.item) + "-" + sighting.signature + ".safetensors";
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == ' '; }, '-');
  pursuit.best_so_far = options_.out / "shrinking" / name;
  pursuit.on_smaller = [&](int64_t now) {
    SetActivity(job, "shrinking " + sighting.signature + ": " + std::to_string(values) + " -> " +
                         std::to_string(now) + " values");
  };

  // Where an interrupted run had got to, if that still fails.
  if (const auto best = ReadCase(pursuit.best_so_far, &unused)) {
    FailingProblem smaller = start;
    smaller.problem = best->problem;
    smaller.finding = best->finding;
    Pursued pursued = Pursue(smaller, runner, pursuit);
    pursued.kept.values_before = values;
    if (pursued.kind != Pursued::Kind::kCase || pursued.kept.note.empty()) return pursued;
  }
  return Pursue(start, runner, pursuit);
}

void Crew::StoreCase(const Sighting& sighting, Pursued pursued) {
  const std::string name = CaseFileName(pursued.stored);
  if (!pursued.harness_fault.empty()) {
    Json witness;
    witness["target"] = sighting.target;
    witness["recipe"] = sighting.recipe;
    StoreFault("shrunk-" + name, pursued.harness_fault, std::move(witness), &pursued.stored);
  }
  std::string error;
  if (!WriteCase(options_.out / "findings" / name, pursued.stored, &error)) {
    End(ExitStatus::kFault, error);
    return;
  }
  pursued.kept.file = "findings/" + name;
  const Sighting stored = ledger_.Store(sighting, std::move(pursued.kept));
  const std::lock_guard lock(observer_mutex_);
  observer_.OnStored(stored, WhyOf(stored.regime));
}

void Crew::StoreFault(const std::string& name, const std::string& what, Json witness, const Case* c) {
  witness["what"] = what;
  std::error_code ignored;
  std::filesystem::create_directories(options_.out / "faults", ignored);
  const std::filesystem::path path = options_.out / "faults" / (name + ".json");
  std::ofstream(path) << witness.Dump(2) << "\n";
  std::string error;
  if (c != nullptr) WriteCase(options_.out / "faults" / name, *c, &error);
  {
    const std::lock_guard lock(observer_mutex_);
    observer_.OnFault(what, path);
  }
  if (ledger_.CountFault(what) >= kMostFaults) {
    End(ExitStatus::kFault, std::to_string(kMostFaults) + " faults of the harness: stopped");
  }
}

void Crew::End(ExitStatus status, const std::string& error) {
  const std::lock_guard lock(mutex_);
  if (status == ExitStatus::kInterrupted) {
    cut_short_ = true;
  } else if (failed_ == ExitStatus::kClean) {
    failed_ = status;
    error_ = error;
  }
}

bool Crew::Ending() {
  const std::lock_guard lock(mutex_);
  return cut_short_ || failed_ != ExitStatus::kClean;
}

void Crew::SetActivity(int job, std::string text) {
  const std::lock_guard lock(mutex_);
  activity_[static_cast<size_t>(job)] = std::move(text);
}

Progress Crew::Snapshot() {
  Progress progress;
  progress.elapsed = ledger_.Elapsed();
  progress.targets = ledger_.Tallies();
  progress.findings = static_cast<int64_t>(ledger_.Sightings().size());
  const std::lock_guard lock(mutex_);
  for (const std::string& text : activity_) {
    if (!text.empty()) progress.activity.push_back(text);
  }
  return progress;
}

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
  summary.status = ledger.Faults() > 0                   ? ExitStatus::kFault
                   : crew.status() != ExitStatus::kClean ? crew.status()
                   : !summary.sightings.empty()          ? ExitStatus::kFindings
                                                         : ExitStatus::kClean;
  summary.options = options;
  std::ofstream(options.out / "summary.json") << ToJson(summary).Dump(2) << "\n";
  return summary;
}

}  // namespace plumbline::fuzz
