// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/worker_pool.h"

#include <fstream>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "fuzz/base/disk_space.h"
#include "fuzz/base/harness_defect.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// A harness that contradicts itself must stop; this many faults are enough to see a pattern.
constexpr int64_t kMostFaults = 10;
// The pause between two checks whether a generation's last cases are done: some milliseconds in every
// second.
constexpr milliseconds kPatience{2};
constexpr milliseconds kDiskEvery{1'000};

}  // namespace

WorkerPool::WorkerPool(const CampaignOptions& options, CampaignState* campaign_state,
                       const std::atomic<bool>& interrupt)
    : options_(options),
      campaign_state_(*campaign_state),
      interrupt_(interrupt),
      shrink_schedule_(
          options.Cases() || options.shrink_tries ? std::nullopt
                                                  : std::optional(options.GetBudget().time),
          campaign_state->Elapsed(), options.jobs, options.GetShrinkTime(), options.Compiles()) {
  const auto targets = static_cast<double>(options.targets.size());
  for (const auto& [target, tally] : campaign_state->Tallies()) cases_before_ += tally.cases;
  for (const Sighting& sighting : campaign_state->AllSightings()) {
    if (!sighting.kept || sighting.kept->file.empty()) continue;
    std::error_code gone;
    const auto bytes = std::filesystem::file_size(options.out / sighting.kept->file, gone);
    if (gone) continue;
    ++stored_files_;
    stored_bytes_ += static_cast<int64_t>(bytes);
  }
  for (size_t t = 0; t < options.targets.size(); ++t) {
    schedules_.emplace_back(kArbitratedPerMinute / targets);
  }
  for (int job = 0; job < options.jobs; ++job) activity_.emplace_back();
  working_ = time_.jobs = options.jobs;
  for (int job = 0; job < options.jobs; ++job) threads_.emplace_back([this, job] { Work(job); });
}

bool WorkerPool::Next(milliseconds patience, std::vector<CampaignEvent>* events) {
  if (since_disk_.Lap() * 1e3 >= static_cast<double>(kDiskEvery.count())) {
    since_disk_.Restart();
    const std::string shortage = DiskShortage(options_.out, options_.least_free);
    if (!shortage.empty()) End(ExitStatus::kFault, shortage);
  }
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::min(patience, kDiskEvery),
                      [this] { return working_ == 0 || !events_.empty(); });
    *events = std::exchange(events_, {});
    if (working_ > 0 || !events->empty()) return true;
  }
  threads_.clear();
  time_.wall = begin_.Lap();
  return false;
}

void WorkerPool::Work(int job) {
  Runners runners = MakeRunners(job);
  Beside beside;
  while (!Ending()) {
    // A gate shrinks once all cases are recorded: no item's worker is used for it, and the first case
    // of each signature is known.
    std::optional<Pursuit> pursuit;
    if (!options_.gate) pursuit = NextPursuit(true);
    if (!pursuit) {
      if (!beside.next) TakeNext(&beside);
      const std::optional<Item> item = std::exchange(beside.next, std::nullopt);
      if (item && interrupt_.load()) {
        End(ExitStatus::kInterrupted, "");
        continue;
      }
      if (item && !campaign_state_.Stopped()) {
        if (!RunItem(*item, runners[item->target].get(), &beside)) break;
        continue;
      }
      if (item) campaign_state_.PutBack(*item);
      if (!beside.wait) pursuit = NextPursuit(false);  // the hunt is over
      if (!pursuit && (beside.wait || campaign_state_.Pursuing())) {
        const Stopwatch watch;
        std::this_thread::sleep_for(kPatience);
        AddTime(&TimeSplit::waiting, watch.Lap());
        continue;
      }
      if (!pursuit) break;
    }
    RecordFinished(&beside);  // other jobs may wait for it, and for the next item
    if (beside.next) campaign_state_.PutBack(*std::exchange(beside.next, std::nullopt));
    if (!PursueSighting(*pursuit, job, &runners)) break;
  }
  RecordFinished(&beside);
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

WorkerPool::Runners WorkerPool::MakeRunners(int job) const {
  Runners runners;
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    const std::string log = "worker-" + std::to_string(job) + "-" + std::to_string(t) + ".log";
    runners.push_back(std::make_unique<CaseRunner>(WorkerSpec{.target = options_.targets[t],
                                                              .program = options_.program,
                                                              .log = options_.out / "logs" / log,
                                                              .memory = options_.worker_memory,
                                                              .production = options_.production,
                                                              .first_call = options_.FirstCall()},
                                                   options_.GetCaseTimeout(), &interrupt_));
  }
  return runners;
}

std::optional<Case> WorkerPool::ReadStored(const std::filesystem::path& file) {
  std::string error;
  std::optional<Case> c = ReadCase(file, &error);
  if (!c) End(ExitStatus::kUsage, "corpus: " + error);
  return c;
}

std::optional<Request> WorkerPool::RequestOf(const Item& item) {
  if (item.file.empty()) return RequestFor(item.recipe, item.seed);
  const std::optional<Case> c = ReadStored(item.file);
  return c ? std::optional(RequestForStored(*c)) : std::nullopt;
}

bool WorkerPool::Answered(Judged::Kind kind, const std::string& error) {
  if (kind == Judged::Kind::kJudged) return true;
  const bool gone = kind == Judged::Kind::kUnavailable;
  End(gone ? ExitStatus::kUnavailable : ExitStatus::kInterrupted, error);
  return false;
}

void WorkerPool::RecordFinished(Beside* beside) {
  if (beside->finished) Record(*std::exchange(beside->finished, std::nullopt));
}

void WorkerPool::TakeNext(Beside* beside) {
  RecordFinished(beside);
  beside->next = campaign_state_.NextItem(&beside->wait, &beside->group);
}

void WorkerPool::RecordNow(const Finished& finished) {
  for (Sighting& sighting : campaign_state_.Record(finished.item, finished.judged, finished.seconds)) {
    if (sighting.part_of.empty())
      Report({.kind = CampaignEvent::Kind::kSighting, .sighting = std::move(sighting)});
  }
  if (const std::string failure = campaign_state_.Failure(); !failure.empty())
    End(ExitStatus::kFault, (options_.out / kJournalName).string() + ": " + failure);
}

bool WorkerPool::RunItem(const Item& item, CaseRunner* runner, Beside* beside) {
  campaign_state_.Start(item);
  if (item.begins_group && !Planted(HarnessDefect::kWorkerIsShared)) runner->Renew();
  const std::optional<Request> request = RequestOf(item);
  if (!request) return false;
  Stopwatch watch;
  Judged judged = runner->Run(*request, [&] { TakeNext(beside); });
  const CaseResult& result = judged.result;  // the arbiter's run replaces it
  const double judging = result.expand_seconds + result.target_seconds + result.oracle_seconds;
  const double seconds = judging > 0 ? judging : watch.Lap();  // what is done beside it is left out
  AddTime(&TimeSplit::expansion, result.expand_seconds);
  AddTime(&TimeSplit::target, result.target_seconds);
  AddTime(&TimeSplit::oracle, result.oracle_seconds);
  watch.Restart();
  // The arbiter is asked before anything becomes a finding. A known signature is only counted: asking
  // for each of thousands of failing cases would take minutes where judging takes milliseconds.
  if (judged.kind == Judged::Kind::kJudged && ShowsNew(item, result, beside->group)) {
    judged = runner->Confirm(*request, std::move(judged));
    AddTime(&TimeSplit::arbiter, watch.Lap());
  } else if (judged.kind == Judged::Kind::kJudged && MayHideAnother(item, result, beside->group)) {
    TellApart(item, *request, runner, beside, &judged);
    AddTime(&TimeSplit::arbiter, watch.Lap());
  } else if (judged.kind == Judged::Kind::kJudged && result.verdict == oracle::Verdict::kPass &&
             result.harness_fault.empty() && !options_.production && AskOnPass(item, seconds)) {
    judged = runner->AskOnPass(*request, std::move(judged));
    schedules_[item.target].Paid(item.regime, item.arbiter_cost, watch.Lap(), result.arbitrated);
    AddTime(&TimeSplit::arbiter, watch.Lap());
  }
  if (!Answered(judged.kind, judged.error)) return false;
  if (!result.harness_fault.empty()) {
    Json witness =
        Json::Object{{"target", runner->target()}, {"recipe", item.recipe}, {"result", ToJson(result)}};
    StoreFault("item-" + std::to_string(item.number), result.harness_fault, std::move(witness),
               nullptr);
  }
  beside->group.Note(judged);
  RecordFinished(beside);  // where no worker began
  // What is no plain pass is recorded at once: a sighting is shrunk before the next case begins.
  const bool passed = result.findings.empty() && result.harness_fault.empty();
  beside->finished = {.item = item, .judged = std::move(judged), .seconds = seconds};
  if (!passed) RecordFinished(beside);
  return true;
}

void WorkerPool::TellApart(const Item& item, Request request, CaseRunner* runner, Beside* beside,
                           Judged* judged) {
  request.tell_apart = true;
  Judged again = runner->Run(request);
  if (again.kind != Judged::Kind::kJudged || !ShowsNew(item, again.result, beside->group)) return;
  again = runner->Confirm(request, std::move(again));
  if (again.kind == Judged::Kind::kJudged) *judged = std::move(again);
}

void WorkerPool::StoreFault(const std::string& name, const std::string& what, Json witness,
                            const Case* c) {
  witness["what"] = what;
  std::error_code ignored;
  std::filesystem::create_directories(options_.out / "faults", ignored);
  const std::filesystem::path path = options_.out / "faults" / (name + ".json");
  std::ofstream(path) << witness.Dump(2) << "\n";
  std::string error;
  if (c != nullptr) WriteCase(options_.out / "faults" / name, *c, &error);
  Report({.kind = CampaignEvent::Kind::kFault, .text = what, .file = path});
  if (campaign_state_.CountFault(what) >= kMostFaults) {
    End(ExitStatus::kFault, std::to_string(kMostFaults) + " faults of the harness: stopped");
  }
}

void WorkerPool::End(ExitStatus status, const std::string& error) {
  const std::lock_guard lock(mutex_);
  if (status == ExitStatus::kInterrupted) {
    cut_short_ = true;
  } else if (failed_ == ExitStatus::kClean) {
    failed_ = status;
    error_ = error;
  }
}

bool WorkerPool::Ending() {
  const std::lock_guard lock(mutex_);
  return cut_short_ || failed_ != ExitStatus::kClean;
}

void WorkerPool::AddTime(double TimeSplit::*part, double seconds) {
  const std::lock_guard lock(mutex_);
  time_.*part += seconds;
}

void WorkerPool::SetActivity(int job, std::string text, int64_t values) {
  const std::lock_guard lock(mutex_);
  Activity& activity = activity_[static_cast<size_t>(job)];
  activity.text = std::move(text);
  activity.values = values;
  activity.best.store(-1);
}

void WorkerPool::Report(CampaignEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

Progress WorkerPool::GetProgress() {
  Progress progress;
  progress.phase = campaign_state_.CurrentPhase();
  progress.elapsed = campaign_state_.Elapsed();
  progress.in_this_run = begin_.Lap();
  progress.budget = options_.GetBudget();
  std::tie(progress.cells, progress.newest) = campaign_state_.Cells();
  progress.targets = campaign_state_.Tallies();
  progress.cases_before = cases_before_;
  progress.findings = campaign_state_.Findings();
  const std::lock_guard lock(mutex_);
  for (const Activity& activity : activity_) {
    if (activity.text.empty()) continue;
    const int64_t best = activity.best.load();
    const std::string values = std::to_string(activity.values) + " -> " + std::to_string(best);
    progress.activity.push_back(activity.text + (best < 0 ? "" : ": " + values + " values"));
  }
  return progress;
}

}  // namespace plumbline::fuzz
