// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/worker_pool.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>

#include "fuzz/base/disk_space.h"
#include "fuzz/cases/name.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// A harness that contradicts itself must stop; this many faults are enough to see a pattern.
constexpr int64_t kMostFaults = 10;
// Shrinking under a budget of time may exceed it by this much, or the last finding would stay large.
constexpr milliseconds kLeastShrinkTime{5'000};
// The pause between two checks whether a generation's last cases are done: some milliseconds in every
// second.
constexpr milliseconds kPatience{2};
// The limits of findings/. A finding beyond them is still shrunk and counted, and its recipe is in the
// journal.
constexpr int64_t kMostStored = 1'000;
constexpr int64_t kMostStoredBytes = int64_t{256} << 20;
constexpr milliseconds kProgressEvery{200};
constexpr milliseconds kDiskEvery{1'000};

}  // namespace

void WorkerPool::Run() {
  const int jobs = options_.jobs;
  activity_.resize(static_cast<size_t>(jobs));
  working_ = time_.jobs = jobs;
  std::vector<std::thread> threads;
  for (int job = 0; job < jobs; ++job) threads.emplace_back([this, job] { Work(job); });
  Stopwatch since_disk;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kProgressEvery, [this] { return working_ == 0; })) break;
    }
    if (since_disk.Lap() * 1e3 >= static_cast<double>(kDiskEvery.count())) {
      since_disk.Restart();
      const std::string shortage = DiskShortage(options_.out, options_.least_free);
      if (!shortage.empty()) End(ExitStatus::kFault, shortage);
    }
    const Progress progress = Snapshot();
    const std::lock_guard lock(observer_mutex_);
    observer_.OnProgress(progress);
  }
  for (std::thread& thread : threads) thread.join();
  time_.wall = begin_.Lap();
}

void WorkerPool::Work(int job) {
  Runners runners = MakeRunners(job);
  while (!Ending()) {
    if (const std::optional<Sighting> sighting = campaign_state_.NextPending()) {
      if (!PursueSighting(*sighting, job, &runners)) break;
      continue;
    }
    bool wait = false;
    const std::optional<Item> item = campaign_state_.NextItem(&wait);
    if (wait) {
      std::this_thread::sleep_for(kPatience);
    } else if (!item) {
      break;
    } else if (interrupt_.load()) {
      End(ExitStatus::kInterrupted, "");
    } else if (!RunItem(*item, runners[item->target].get())) {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

WorkerPool::Runners WorkerPool::MakeRunners(int job) const {
  Runners runners;
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    WorkerSpec spec;
    spec.target = options_.targets[t];
    spec.program = options_.program;
    spec.memory = options_.worker_memory;
    spec.log =
        options_.out / "logs" / ("worker-" + std::to_string(job) + "-" + std::to_string(t) + ".log");
    runners.push_back(
        std::make_unique<CaseRunner>(std::move(spec), options_.GetCaseTimeout(), &interrupt_));
  }
  return runners;
}

std::optional<Request> WorkerPool::RequestOf(const Item& item, std::string* error) {
  if (item.file.empty()) return RequestFor(item.recipe, item.seed);
  const std::optional<Case> c = ReadCase(item.file, error);
  if (!c) return std::nullopt;
  return RequestFor(c->problem, SeedOf(*c));
}

bool WorkerPool::RunItem(const Item& item, CaseRunner* runner) {
  campaign_state_.Start(item);
  std::string unreadable;
  const std::optional<Request> sent = RequestOf(item, &unreadable);
  if (!sent) {
    End(ExitStatus::kFault, "corpus: " + unreadable);
    return false;
  }
  const Request& request = *sent;
  Stopwatch watch;
  Judged judged = runner->Run(request);
  const double seconds = watch.Lap();
  AddTime(&TimeSplit::expansion, judged.result.expand_seconds);
  AddTime(&TimeSplit::target, judged.result.target_seconds);
  AddTime(&TimeSplit::oracle, judged.result.oracle_seconds);
  watch.Restart();
  // The arbiter is asked before anything becomes a finding. A known signature is only counted: asking
  // for each of thousands of failing cases would take minutes where judging takes milliseconds.
  if (judged.kind == Judged::Kind::kJudged && campaign_state_.ShowsNew(item, judged.result)) {
    judged = runner->Confirm(request, std::move(judged));
    AddTime(&TimeSplit::arbiter, watch.Lap());
  } else if (judged.kind == Judged::Kind::kJudged && judged.result.verdict == oracle::Verdict::kPass &&
             judged.result.harness_fault.empty() &&
             schedules_[item.target].Due(item.regime, item.arbiter_cost, seconds, begin_.Lap())) {
    judged = runner->AskOnPass(request, std::move(judged));
    schedules_[item.target].Paid(item.regime, item.arbiter_cost, watch.Lap(), judged.result.arbitrated);
    AddTime(&TimeSplit::arbiter, watch.Lap());
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
  for (const Sighting& sighting : campaign_state_.Record(item, judged, seconds)) {
    const std::lock_guard lock(observer_mutex_);
    observer_.OnSighting(sighting, WhyOf(sighting.regime));
  }
  if (const std::string failure = campaign_state_.Failure(); !failure.empty())
    End(ExitStatus::kFault, (options_.out / kJournalName).string() + ": " + failure);
  return true;
}

bool WorkerPool::PursueSighting(const Sighting& sighting, int job, Runners* runners) {
  const auto target = std::find(options_.targets.begin(), options_.targets.end(), sighting.target);
  CaseRunner& runner = *(*runners)[static_cast<size_t>(target - options_.targets.begin())];
  SetActivity(job, "shrinking " + sighting.signature);
  const Stopwatch watch;
  std::optional<Pursued> found = PursueFrom(sighting, job, &runner);
  AddTime(&TimeSplit::shrinking, watch.Lap());
  SetActivity(job, "");
  if (!found) return false;
  Pursued& pursued = *found;
  if (pursued.kind != Pursued::Kind::kCase) {
    const bool gone = pursued.kind == Pursued::Kind::kUnavailable;
    End(gone ? ExitStatus::kUnavailable : ExitStatus::kInterrupted, pursued.error);
    return false;
  }
  StoreCase(sighting, std::move(pursued));
  return true;
}

std::optional<FailingProblem> WorkerPool::StartOf(const Sighting& sighting, std::string* error) {
  FailingProblem start{.problem = {},
                       .finding = sighting.finding,
                       .recipe = sighting.recipe,
                       .why = WhyOf(sighting.regime),
                       .seed = 0};
  if (sighting.source.empty()) {
    Recipe recipe;
    Parse(sighting.recipe, &recipe, error);
    start.problem = Expand(recipe);
    start.seed = recipe.seed;
    return start;
  }
  std::optional<Case> c = ReadCase(sighting.source, error);
  if (!c) return std::nullopt;
  start.problem = std::move(c->problem);
  start.recipe = c->recipe;
  start.why = c->why;
  start.seed = SeedOf(*c);
  return start;
}

std::optional<Pursued> WorkerPool::PursueFrom(const Sighting& sighting, int job, CaseRunner* runner) {
  std::string unreadable;
  const std::optional<FailingProblem> found = StartOf(sighting, &unreadable);
  if (!found) {
    End(ExitStatus::kFault, "corpus: " + unreadable);
    return std::nullopt;
  }
  const FailingProblem& start = *found;
  const int64_t values = ValueCount(start.problem);

  PursuitOptions pursuit;
  pursuit.shrink_time = options_.shrink_time;
  if (!options_.Cases()) {
    const milliseconds left = options_.GetBudget().time - campaign_state_.Elapsed();
    pursuit.shrink_time = std::min(pursuit.shrink_time, std::max(left, kLeastShrinkTime));
  }
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

  // Shrinking continues from the point that an interrupted run had reached, if that still fails.
  std::string unused;
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

std::string WorkerPool::Room(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (stored_files_ >= kMostStored || stored_bytes_ + bytes > kMostStoredBytes) {
    return "not stored: findings/ holds " + std::to_string(stored_files_) + " cases, " +
           std::to_string(stored_bytes_) + " bytes, and this one has " + std::to_string(bytes) +
           "; at most " + std::to_string(kMostStored) + " and " + std::to_string(kMostStoredBytes);
  }
  ++stored_files_;
  stored_bytes_ += bytes;
  return {};
}

void WorkerPool::StoreCase(const Sighting& sighting, Pursued pursued) {
  const std::string name = CaseFileName(pursued.stored);
  if (!pursued.harness_fault.empty()) {
    Json witness;
    witness["target"] = sighting.target;
    witness["recipe"] = sighting.recipe;
    StoreFault("shrunk-" + name, pursued.harness_fault, std::move(witness), &*pursued.witness);
  }
  const auto bytes = static_cast<int64_t>(SerializeCase(pursued.stored).size());
  if (const std::string full = Room(bytes); !full.empty()) {
    pursued.kept.note += (pursued.kept.note.empty() ? "" : "; ") + full;
  } else {
    std::string error;
    if (!WriteCase(options_.out / "findings" / name, pursued.stored, &error)) {
      End(ExitStatus::kFault, error);
      return;
    }
    pursued.kept.file = "findings/" + name;
  }
  StoreOtherFindings(sighting.target, pursued.other_findings);
  const Sighting stored = campaign_state_.Store(sighting, std::move(pursued.kept));
  const std::lock_guard lock(observer_mutex_);
  observer_.OnStored(stored, WhyOf(stored.regime));
}

// They do not become sightings, since no recipe shows them, but their cases are stored.
void WorkerPool::StoreOtherFindings(const std::string& target, const std::vector<Case>& others) {
  for (const Case& other : others) {
    const std::string signature = other.finding.Signature();
    const std::vector<Sighting> known = campaign_state_.Sightings();
    if (std::any_of(known.begin(), known.end(), [&](const Sighting& sighting) {
          return sighting.target == target && sighting.signature == signature;
        })) {
      continue;
    }
    std::error_code ignored;
    std::filesystem::create_directories(options_.out / "slips", ignored);
    std::string error;
    if (!WriteCase(options_.out / "slips" / CaseFileName(other), other, &error)) {
      End(ExitStatus::kFault, error);
    }
  }
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
  {
    const std::lock_guard lock(observer_mutex_);
    observer_.OnFault(what, path);
  }
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

void WorkerPool::SetActivity(int job, std::string text) {
  const std::lock_guard lock(mutex_);
  activity_[static_cast<size_t>(job)] = std::move(text);
}

Progress WorkerPool::Snapshot() {
  Progress progress;
  progress.phase = campaign_state_.CurrentPhase();
  progress.elapsed = campaign_state_.Elapsed();
  progress.in_this_run = begin_.Lap();
  progress.budget = options_.GetBudget();
  std::tie(progress.cells, progress.newest) = campaign_state_.Cells();
  progress.targets = campaign_state_.Tallies();
  progress.cases_before = cases_before_;
  progress.findings = static_cast<int64_t>(campaign_state_.Sightings().size());
  const std::lock_guard lock(mutex_);
  for (const std::string& text : activity_) {
    if (!text.empty()) progress.activity.push_back(text);
  }
  return progress;
}

}  // namespace plumbline::fuzz
