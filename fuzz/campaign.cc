// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign.h"

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "fuzz/case_file.h"
#include "fuzz/case_runner.h"
#include "fuzz/journal.h"
#include "fuzz/pursuit.h"
#include "fuzz/recipe.h"
#include "fuzz/regimes.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A harness that contradicts itself is not worth running on: enough to see a pattern, then it stops.
constexpr int64_t kMostFaults = 10;
// Shrinking under a budget of time may overrun it by this much, or the last finding would stay large.
constexpr milliseconds kLeastShrinkTime{5'000};

class Campaign {
 public:
  Campaign(CampaignOptions options, JournalState state, std::unique_ptr<Journal> journal,
           const std::atomic<bool>& interrupt, CampaignObserver* observer)
      : options_(std::move(options)),
        state_(std::move(state)),
        journal_(std::move(journal)),
        interrupt_(interrupt),
        observer_(*observer) {
    for (auto& [key, sighting] : state_.sightings) {
      if (!sighting.trophy) pending_.push_back(key);
    }
  }

  CampaignSummary Run();

 private:
  struct Item {
    int64_t number = 0;
    size_t target = 0;
    std::string recipe;
    Recipe parsed;
  };
  using Runners = std::vector<std::unique_ptr<CaseRunner>>;

  milliseconds Elapsed() const {
    return state_.elapsed + std::chrono::duration_cast<milliseconds>(Clock::now() - begin_);
  }
  void Work(int job);
  Runners MakeRunners(int job) const;
  bool Stopping();
  std::optional<SightingKey> NextPending();
  std::optional<Item> NextItem();
  bool RunItem(const Item& item, int job, CaseRunner* runner);
  std::vector<SightingKey> Register(const Item& item, const Judged& judged, const CaseRecord& record);
  bool PursueSighting(const SightingKey& key, int job, Runners* runners);
  Pursued PursueFrom(const Sighting& sighting, int job, CaseRunner* runner);
  void StoreCase(const SightingKey& key, Pursued pursued);
  void StoreFault(const std::string& name, const std::string& what, Json witness, const Case* c);
  void Fail(ExitStatus status, const std::string& error);
  void SetActivity(int job, std::string text);
  Progress Snapshot();

  CampaignOptions options_;
  JournalState state_;  // the parts that grow are guarded by mutex_
  std::unique_ptr<Journal> journal_;
  const std::atomic<bool>& interrupt_;
  CampaignObserver& observer_;
  const Clock::time_point begin_ = Clock::now();

  std::mutex mutex_;
  std::mutex observer_mutex_;
  std::condition_variable changed_;
  std::vector<SightingKey> pending_;
  std::vector<std::string> activity_;
  int64_t next_ = 0;
  int64_t fault_count_ = 0;
  int working_ = 0;
  bool stop_ = false;
  bool cut_short_ = false;  // a thread left work behind because of the interrupt
  ExitStatus failed_ = ExitStatus::kClean;
  std::string error_;
};

Campaign::Runners Campaign::MakeRunners(int job) const {
  Runners runners;
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    WorkerSpec spec;
    spec.target = options_.targets[t];
    spec.program = options_.program;
    spec.log = options_.out / "logs" / ("worker-" + std::to_string(job) + "-" + std::to_string(t) + ".log");
    runners.push_back(std::make_unique<CaseRunner>(std::move(spec), options_.GetCaseTimeout(), &interrupt_));
  }
  return runners;
}

bool Campaign::Stopping() {
  const std::lock_guard lock(mutex_);
  return stop_ || interrupt_.load();
}

std::optional<SightingKey> Campaign::NextPending() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return std::nullopt;
  SightingKey key = pending_.back();
  pending_.pop_back();
  return key;
}

std::optional<Campaign::Item> Campaign::NextItem() {
  Item item;
  {
    const std::lock_guard lock(mutex_);
    const int64_t limit = options_.GetStopAfter();
    if (limit > 0 && static_cast<int64_t>(state_.sightings.size()) >= limit) return std::nullopt;
    while (state_.Done(next_)) ++next_;
    const std::optional<int64_t> cases = options_.Cases();
    if (cases ? next_ >= *cases : Elapsed() >= options_.GetBudget().time) return std::nullopt;
    item.number = next_++;
  }
  const auto targets = static_cast<int64_t>(options_.targets.size());
  item.target = static_cast<size_t>(item.number % targets);
  if (options_.recipe.empty()) {
    item.parsed =
        DrawRecipe(options_.seed, static_cast<uint64_t>(item.number / targets), options_.regime);
    item.recipe = Format(item.parsed);
  } else {
    std::string unused;  // Objection() has parsed it before
    Parse(options_.recipe, &item.parsed, &unused);
    item.recipe = options_.recipe;
  }
  return item;
}

void Campaign::Work(int job) {
  Runners runners = MakeRunners(job);
  for (;;) {
    if (Stopping()) break;
    if (const std::optional<SightingKey> key = NextPending()) {
      if (!PursueSighting(*key, job, &runners)) break;
      continue;
    }
    const std::optional<Item> item = NextItem();
    if (!item) break;
    if (!RunItem(*item, job, runners[item->target].get())) break;
  }
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

// False: this thread is to end.
bool Campaign::RunItem(const Item& item, int job, CaseRunner* runner) {
  journal_->Start(item.number);
  const Judged judged = runner->Run(RequestFor(item.recipe, item.parsed.seed, /*arbiter=*/true));
  if (judged.kind == Judged::Kind::kInterrupted) {
    const std::lock_guard lock(mutex_);
    cut_short_ = true;
    return false;
  }
  if (judged.kind == Judged::Kind::kUnavailable) {
    Fail(ExitStatus::kUnavailable, judged.error);
    return false;
  }
  const std::string& target = runner->target();
  const CaseRecord record = RecordOf(judged.result, judged.retried);
  const std::vector<SightingKey> fresh = Register(item, judged, record);
  if (record.fault) {
    Json witness;
    witness["target"] = target;
    witness["recipe"] = item.recipe;
    witness["result"] = ToJson(judged.result);
    StoreFault("item-" + std::to_string(item.number), judged.result.harness_fault, std::move(witness), nullptr);
  }
  {
    const std::lock_guard lock(mutex_);
    state_.tallies[target].Add(record);
    pending_.insert(pending_.end(), fresh.rbegin(), fresh.rend());  // the worst is taken first
  }
  journal_->Done(item.number, target, Elapsed(), record);
  if (const std::string failure = journal_->Failure(); !failure.empty()) {
    Fail(ExitStatus::kFault, failure);
    return false;
  }
  static_cast<void>(job);
  return true;
}

// The keys seen for the first time, which are journaled before the case is done.
std::vector<SightingKey> Campaign::Register(const Item& item, const Judged& judged, const CaseRecord& record) {
  std::vector<SightingKey> fresh;
  if (record.fault) return fresh;  // nothing is called a finding while the oracle contradicts itself
  const std::string& target = options_.targets[item.target];
  for (const std::string& signature : record.signatures) {
    const Finding& finding = *FindSignature(judged.result, signature);
    const bool once = finding.kind == FindingKind::kCrash && !judged.reproduced;
    SightingKey key(target, once ? signature + std::string(kOnce) : signature);
    Sighting copy;
    {
      const std::lock_guard lock(mutex_);
      const auto known = state_.sightings.find(key);
      if (known != state_.sightings.end()) {
        Sighting& sighting = known->second;
        if (sighting.item == item.number || sighting.more.size() >= kMoreRecipes) continue;
        sighting.more.push_back(item.recipe);
        journal_->More(key, item.recipe);
        continue;
      }
      const int64_t limit = options_.GetStopAfter();
      if (limit > 0 && static_cast<int64_t>(state_.sightings.size()) >= limit) continue;
      Sighting sighting;
      sighting.target = target;
      sighting.signature = key.second;
      sighting.item = item.number;
      sighting.recipe = item.recipe;
      sighting.regime = item.parsed.regime;
      sighting.seconds = std::chrono::duration<double>(Elapsed()).count();
      sighting.finding = finding;
      sighting.reproduced = !once;
      journal_->Sighted(sighting);
      copy = state_.sightings.emplace(key, std::move(sighting)).first->second;
      fresh.push_back(key);
    }
    const std::lock_guard lock(observer_mutex_);
    observer_.OnSighting(copy, WhyOf(copy.regime));
  }
  return fresh;
}

// False: this thread is to end.
bool Campaign::PursueSighting(const SightingKey& key, int job, Runners* runners) {
  Sighting sighting;
  {
    const std::lock_guard lock(mutex_);
    sighting = state_.sightings.at(key);
  }
  const auto target = std::find(options_.targets.begin(), options_.targets.end(), sighting.target);
  CaseRunner& runner = *(*runners)[static_cast<size_t>(target - options_.targets.begin())];
  SetActivity(job, "shrinking " + sighting.signature);
  Pursued pursued = PursueFrom(sighting, job, &runner);
  SetActivity(job, "");
  if (pursued.kind == Pursued::Kind::kInterrupted) {
    const std::lock_guard lock(mutex_);
    cut_short_ = true;
    return false;
  }
  if (pursued.kind == Pursued::Kind::kUnavailable) {
    Fail(ExitStatus::kUnavailable, pursued.error);
    return false;
  }
  StoreCase(key, std::move(pursued));
  return true;
}

Pursued Campaign::PursueFrom(const Sighting& sighting, int job, CaseRunner* runner) {
  Recipe recipe;
  std::string unused;
  Parse(sighting.recipe, &recipe, &unused);
  Quarry quarry{.problem = Expand(recipe),
                .finding = sighting.finding,
                .recipe = sighting.recipe,
                .why = WhyOf(sighting.regime),
                .seed = recipe.seed};
  const int64_t values = ValueCount(quarry.problem);

  PursuitOptions pursuit;
  pursuit.shrink_time = options_.shrink_time;
  if (!options_.Cases()) {
    const milliseconds left = options_.GetBudget().time - Elapsed();
    pursuit.shrink_time = std::min(pursuit.shrink_time, std::max(left, kLeastShrinkTime));
  }
  // A death that did not happen again gives the shrinker nothing to hold on to.
  if (!sighting.reproduced) pursuit.shrink_time = milliseconds(0);
  std::error_code ignored;
  std::filesystem::create_directories(options_.out / "shrinking", ignored);
  std::string name = std::to_string(sighting.item) + "-" + sighting.signature + ".safetensors";
  std::replace(name.begin(), name.end(), ':', '-');
  std::replace(name.begin(), name.end(), ' ', '-');
  pursuit.best_so_far = options_.out / "shrinking" / name;
  pursuit.on_smaller = [&](int64_t now) {
    SetActivity(job, "shrinking " + sighting.signature + ": " + std::to_string(values) + " -> " +
                         std::to_string(now) + " values");
  };

  // Where an interrupted session had got to, if that still fails.
  if (const auto best = ReadCase(pursuit.best_so_far, &unused)) {
    Quarry smaller = quarry;
    smaller.problem = best->problem;
    smaller.finding = best->finding;
    Pursued pursued = Pursue(smaller, runner, pursuit);
    if (pursued.kind != Pursued::Kind::kCase || pursued.trophy.note.empty()) {
      pursued.trophy.values_before = values;
      return pursued;
    }
  }
  return Pursue(quarry, runner, pursuit);
}

void Campaign::StoreCase(const SightingKey& key, Pursued pursued) {
  if (!pursued.harness_fault.empty()) {
    Json witness;
    witness["target"] = key.first;
    witness["recipe"] = pursued.stored.recipe;
    StoreFault("shrunk-" + CaseFileName(pursued.stored), pursued.harness_fault, std::move(witness),
               &pursued.stored);
  }
  const std::string name = CaseFileName(pursued.stored);
  std::string error;
  if (!WriteCase(options_.out / "findings" / name, pursued.stored, &error)) {
    Fail(ExitStatus::kFault, error);
    return;
  }
  pursued.trophy.file = "findings/" + name;
  journal_->Stored(key, pursued.trophy);
  Sighting copy;
  {
    const std::lock_guard lock(mutex_);
    Sighting& sighting = state_.sightings.at(key);
    sighting.trophy = std::move(pursued.trophy);
    copy = sighting;
  }
  const std::lock_guard lock(observer_mutex_);
  observer_.OnStored(copy, WhyOf(copy.regime));
}

void Campaign::StoreFault(const std::string& name, const std::string& what, Json witness, const Case* c) {
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
  bool enough = false;
  {
    const std::lock_guard lock(mutex_);
    enough = ++fault_count_ >= kMostFaults;
  }
  if (enough) Fail(ExitStatus::kFault, std::to_string(kMostFaults) + " faults of the harness: stopped");
}

void Campaign::Fail(ExitStatus status, const std::string& error) {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  if (failed_ != ExitStatus::kClean) return;
  failed_ = status;
  error_ = error;
}

void Campaign::SetActivity(int job, std::string text) {
  const std::lock_guard lock(mutex_);
  activity_[static_cast<size_t>(job)] = std::move(text);
}

Progress Campaign::Snapshot() {
  const std::lock_guard lock(mutex_);
  Progress progress;
  progress.elapsed = Elapsed();
  for (const std::string& target : options_.targets) progress.targets.emplace_back(target, state_.tallies[target]);
  progress.findings = static_cast<int64_t>(state_.sightings.size());
  for (const std::string& text : activity_) {
    if (!text.empty()) progress.activity.push_back(text);
  }
  return progress;
}

CampaignSummary Campaign::Run() {
  const int jobs = options_.jobs > 0 ? options_.jobs
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
  journal_->Clock(Elapsed());

  CampaignSummary summary;
  summary.elapsed = Elapsed();
  summary.error = error_;
  for (const std::string& target : options_.targets) {
    summary.targets.emplace_back(target, state_.tallies[target]);
    fault_count_ = std::max(fault_count_, state_.tallies[target].faults);
  }
  bool unstored = false;
  for (auto& [key, sighting] : state_.sightings) {
    unstored = unstored || !sighting.trophy;
    summary.sightings.push_back(sighting);
  }
  std::stable_sort(summary.sightings.begin(), summary.sightings.end(),
                   [](const Sighting& a, const Sighting& b) { return a.item < b.item; });
  const bool left_work = interrupt_.load() && (cut_short_ || unstored || NextItem().has_value());
  summary.status = fault_count_ > 0                  ? ExitStatus::kFault
                   : failed_ != ExitStatus::kClean   ? failed_
                   : left_work                       ? ExitStatus::kInterrupted
                   : !summary.sightings.empty()      ? ExitStatus::kFindings
                                                     : ExitStatus::kClean;
  summary.options = std::move(options_);
  std::ofstream(summary.options.out / "summary.json") << ToJson(summary).Dump(2) << "\n";
  return summary;
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
      observer->OnNote("item " + std::to_string(item) + " was in flight when the last session ended: it runs again");
    }
  } else if (std::filesystem::exists(options.out / kJournalName)) {
    return Refused(ExitStatus::kUsage,
                   options.out.string() + " already holds a campaign; go on with it by --resume " +
                       options.out.string(),
                   std::move(options));
  }
  if (error = Objection(options); !error.empty()) return Refused(ExitStatus::kUsage, error, std::move(options));
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
  return Campaign(std::move(options), std::move(state), std::move(journal), interrupt, observer).Run();
}

std::string Objection(const CampaignOptions& options) {
  if (options.targets.empty()) return "no target is given";
  for (size_t i = 0; i < options.targets.size(); ++i) {
    if (std::count(options.targets.begin(), options.targets.end(), options.targets[i]) > 1) {
      return "target " + options.targets[i] + " is given twice";
    }
  }
  if (!options.regime.empty() && WhyOf(options.regime).empty()) {
    std::string names;
    for (const Regime& regime : Regimes()) names += (names.empty() ? "" : ", ") + std::string(regime.name);
    return "regime '" + options.regime + "' is unknown; there are " + names;
  }
  Recipe recipe;
  std::string error;
  if (!options.recipe.empty() && !Parse(options.recipe, &recipe, &error)) return "recipe: " + error;
  return {};
}

std::string WhyOf(std::string_view name) {
  for (const Regime& regime : Regimes()) {
    if (regime.name == name) return std::string(regime.why);
  }
  return {};
}

Json ToJson(const CampaignSummary& summary) {
  Json json;
  json["verdict"] = Name(summary.status);
  json["status"] = static_cast<int>(summary.status);
  if (!summary.error.empty()) json["error"] = summary.error;
  json["out"] = summary.options.out.string();
  json["campaign"] = ToJson(summary.options);
  json["elapsed_seconds"] = std::chrono::duration<double>(summary.elapsed).count();
  int64_t cases = 0;
  json["targets"] = Json(Json::Array{});
  for (const auto& [target, tally] : summary.targets) {
    Json entry = ToJson(tally);
    entry["target"] = target;
    json["targets"].Append(std::move(entry));
    cases += tally.cases;
  }
  json["cases"] = cases;
  json["findings"] = Json(Json::Array{});
  for (const Sighting& sighting : summary.sightings) json["findings"].Append(ToJson(sighting));
  return json;
}

}  // namespace plumbline::fuzz
