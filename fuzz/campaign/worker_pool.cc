// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/worker_pool.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

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
constexpr milliseconds kDiskEvery{1'000};

}  // namespace

WorkerPool::WorkerPool(const CampaignOptions& options, CampaignState* campaign_state,
                       const std::atomic<bool>& interrupt)
    : options_(options), campaign_state_(*campaign_state), interrupt_(interrupt) {
  const auto targets = static_cast<double>(options.targets.size());
  for (const auto& [target, tally] : campaign_state->Tallies()) cases_before_ += tally.cases;
  for (const Sighting& sighting : campaign_state->Sightings()) {
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
    if (const std::optional<Sighting> sighting = campaign_state_.NextPending()) {
      RecordFinished(&beside);  // other jobs may wait for it, and for the next item
      if (beside.next) campaign_state_.PutBack(*std::exchange(beside.next, std::nullopt));
      if (!PursueSighting(*sighting, job, &runners)) break;
      continue;
    }
    if (!beside.next) TakeNext(&beside);
    const std::optional<Item> item = std::exchange(beside.next, std::nullopt);
    if (!item && beside.wait) {
      std::this_thread::sleep_for(kPatience);
    } else if (!item || campaign_state_.Stopped()) {
      break;
    } else if (interrupt_.load()) {
      End(ExitStatus::kInterrupted, "");
    } else if (!RunItem(*item, runners[item->target].get(), &beside)) {
      break;
    }
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
                                                              .production = options_.production},
                                                   options_.GetCaseTimeout(), &interrupt_));
  }
  return runners;
}

std::optional<Case> WorkerPool::ReadStored(const std::filesystem::path& file) {
  std::string error;
  std::optional<Case> c = ReadCase(file, &error);
  if (!c) End(ExitStatus::kFault, "corpus: " + error);
  return c;
}

std::optional<Request> WorkerPool::RequestOf(const Item& item) {
  if (item.file.empty()) return RequestFor(item.recipe, item.seed);
  const std::optional<Case> c = ReadStored(item.file);
  return c ? std::optional(RequestFor(c->problem, SeedOf(*c))) : std::nullopt;
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
  beside->next = campaign_state_.NextItem(&beside->wait);
}

void WorkerPool::Record(const Finished& finished) {
  for (Sighting& sighting : campaign_state_.Record(finished.item, finished.judged, finished.seconds)) {
    Report({.kind = CampaignEvent::Kind::kSighting, .sighting = std::move(sighting)});
  }
  if (const std::string failure = campaign_state_.Failure(); !failure.empty())
    End(ExitStatus::kFault, (options_.out / kJournalName).string() + ": " + failure);
}

bool WorkerPool::RunItem(const Item& item, CaseRunner* runner, Beside* beside) {
  campaign_state_.Start(item);
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
  if (judged.kind == Judged::Kind::kJudged && campaign_state_.ShowsNew(item, result)) {
    judged = runner->Confirm(*request, std::move(judged));
    AddTime(&TimeSplit::arbiter, watch.Lap());
  } else if (judged.kind == Judged::Kind::kJudged && result.verdict == oracle::Verdict::kPass &&
             result.harness_fault.empty() && !options_.production &&
             schedules_[item.target].Due(item.regime, item.arbiter_cost, seconds, begin_.Lap())) {
    judged = runner->AskOnPass(*request, std::move(judged));
    schedules_[item.target].Paid(item.regime, item.arbiter_cost, watch.Lap(), result.arbitrated);
    AddTime(&TimeSplit::arbiter, watch.Lap());
  }
  if (!Answered(judged.kind, judged.error)) return false;
  if (!result.harness_fault.empty()) {
    Json witness = Json::Object{
        {"target", runner->target()}, {"recipe", item.recipe}, {"result", ToJson(result)}};
    StoreFault("item-" + std::to_string(item.number), result.harness_fault, std::move(witness), nullptr);
  }
  RecordFinished(beside);  // where no worker began
  // What is no plain pass is recorded at once: a sighting is shrunk before the next case begins.
  const bool passed = result.findings.empty() && result.harness_fault.empty();
  beside->finished = {.item = item, .judged = std::move(judged), .seconds = seconds};
  if (!passed) RecordFinished(beside);
  return true;
}

bool WorkerPool::PursueSighting(const Sighting& sighting, int job, Runners* runners) {
  if (options_.production) {
    StoreRecipe(sighting);
    return true;
  }
  const auto target = std::ranges::find(options_.targets, sighting.target);
  CaseRunner& runner = *(*runners)[static_cast<size_t>(target - options_.targets.begin())];
  const Stopwatch watch;
  std::optional<Pursued> pursued = PursueFrom(sighting, job, &runner);
  AddTime(&TimeSplit::shrinking, watch.Lap());
  SetActivity(job, "", 0);
  if (!pursued || !Answered(pursued->kind, pursued->error)) return false;
  StoreCase(sighting, *std::move(pursued));
  return true;
}

std::optional<FailingProblem> WorkerPool::StartOf(const Sighting& sighting) {
  FailingProblem start{.problem = {},
                       .finding = sighting.finding,
                       .recipe = sighting.recipe,
                       .why = WhyOf(sighting.regime),
                       .seed = 0};
  if (sighting.source.empty()) {
    Recipe recipe;
    std::string unused;  // the campaign has drawn it
    Parse(sighting.recipe, &recipe, &unused);
    start.problem = Expand(recipe);
    start.seed = recipe.seed;
    return start;
  }
  std::optional<Case> c = ReadStored(sighting.source);
  if (!c) return std::nullopt;
  start.problem = std::move(c->problem);
  start.recipe = c->recipe;
  start.why = c->why;
  start.seed = SeedOf(*c);
  return start;
}

std::optional<Pursued> WorkerPool::PursueFrom(const Sighting& sighting, int job, CaseRunner* runner) {
  const std::optional<FailingProblem> start = StartOf(sighting);
  if (!start) return std::nullopt;
  const int64_t values = ValueCount(start->problem);
  SetActivity(job, "shrinking " + sighting.signature, values);

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
  pursuit.best_so_far = {options_.out / "shrinking" / name, &activity_[static_cast<size_t>(job)].best};

  // Shrinking continues from the point that an interrupted run had reached, if that still fails.
  std::string unused;
  if (const auto best = ReadCase(pursuit.best_so_far.file, &unused)) {
    FailingProblem smaller = *start;
    smaller.problem = best->problem;
    smaller.finding = best->finding;
    Pursued pursued = Pursue(smaller, runner, pursuit);
    pursued.kept.values_before = values;
    if (pursued.kind != Judged::Kind::kJudged || pursued.kept.note.empty()) return pursued;
  }
  return Pursue(*start, runner, pursuit);
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
    Json witness = Json::Object{{"target", sighting.target}, {"recipe", sighting.recipe}};
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
  Keep(sighting, std::move(pursued.kept));
}

// A problem of production size is gigabytes, and every step of shrinking would take seconds.
void WorkerPool::StoreRecipe(const Sighting& sighting) {
  StoredFinding kept;
  kept.finding = sighting.finding;
  kept.note = "a case of production size is kept as its recipe, and not shrunk";
  Keep(sighting, std::move(kept));
}

void WorkerPool::Keep(const Sighting& sighting, StoredFinding kept) {
  Report({.kind = CampaignEvent::Kind::kStored,
          .sighting = campaign_state_.Store(sighting, std::move(kept))});
}

// They do not become sightings, since no recipe shows them, but their cases are stored.
void WorkerPool::StoreOtherFindings(const std::string& target, const std::vector<Case>& others) {
  for (const Case& other : others) {
    const std::string signature = other.finding.Signature();
    const std::vector<Sighting> known = campaign_state_.Sightings();
    const auto same = [&](const Sighting& it) {
      return it.target == target && it.signature == signature;
    };
    if (std::ranges::any_of(known, same)) continue;
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
  progress.findings = static_cast<int64_t>(campaign_state_.Sightings().size());
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
