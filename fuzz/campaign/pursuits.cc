// SPDX-License-Identifier: Apache-2.0
//
// What the threads of a WorkerPool do with a finding.
#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "fuzz/campaign/worker_pool.h"
#include "fuzz/cases/name.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// The limits of findings/. A finding beyond them is still shrunk and counted, and its recipe is in the
// journal.
constexpr int64_t kMostStored = 1'000;
constexpr int64_t kMostStoredBytes = int64_t{256} << 20;

}  // namespace

std::optional<WorkerPool::Pursuit> WorkerPool::NextPursuit(bool hunting) {
  Pursuit pursuit;
  const auto allowed = [&](int64_t waiting) {
    const std::lock_guard lock(mutex_);
    const auto time = shrink_schedule_.Begin(campaign_state_.Elapsed(), waiting, hunting);
    pursuit.time = time.value_or(milliseconds(0));
    return time.has_value();
  };
  std::optional<Sighting> sighting = campaign_state_.NextPending(allowed, &pursuit.companions);
  if (!sighting) return std::nullopt;
  pursuit.sighting = *std::move(sighting);
  return pursuit;
}

bool WorkerPool::PursueSighting(const Pursuit& pursuit, int job, Runners* runners) {
  const Sighting& sighting = pursuit.sighting;
  if (options_.production) {
    EndPursuit(pursuit, 0);
    StoreRecipe(pursuit);
    return true;
  }
  const auto target = std::ranges::find(options_.targets, sighting.target);
  CaseRunner& runner = *(*runners)[static_cast<size_t>(target - options_.targets.begin())];
  const Stopwatch watch;
  std::optional<Pursued> pursued = PursueFrom(pursuit, job, &runner);
  const double seconds = watch.Lap();
  AddTime(&TimeSplit::shrinking, seconds);
  EndPursuit(pursuit, seconds);
  SetActivity(job, "", 0);
  if (!pursued || !Answered(pursued->kind, pursued->error)) return false;
  StoreCase(sighting, *std::move(pursued));
  return true;
}

void WorkerPool::EndPursuit(const Pursuit& pursuit, double seconds) {
  const std::lock_guard lock(mutex_);
  shrink_schedule_.End(pursuit.time, milliseconds(std::llround(1e3 * seconds)));
}

std::optional<FailingProblem> WorkerPool::StartOf(const Sighting& sighting) {
  if (!sighting.source.empty()) {
    std::optional<Case> c = ReadStored(sighting.source);
    if (!c) return std::nullopt;
    return StartFrom(*std::move(c), sighting.finding);
  }
  Recipe recipe;
  std::string unused;  // the campaign has drawn it
  Parse(sighting.recipe, &recipe, &unused);
  return FailingProblem{.problem = Expand(recipe),
                        .finding = sighting.finding,
                        .recipe = sighting.recipe,
                        .drawn_by = WhyOf(sighting.regime),
                        .seed = recipe.seed};
}

std::optional<Pursued> WorkerPool::PursueFrom(const Pursuit& begun, int job, CaseRunner* runner) {
  const Sighting& sighting = begun.sighting;
  const std::optional<FailingProblem> start = StartOf(sighting);
  if (!start) return std::nullopt;
  const int64_t values = ValueCount(start->problem);
  SetActivity(job, "shrinking " + sighting.signature, values);

  PursuitOptions pursuit;
  pursuit.shrink_time = begun.time;
  pursuit.tries = options_.shrink_tries;
  if (options_.gate) runner->Renew();
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
void WorkerPool::StoreRecipe(const Pursuit& pursuit) {
  StoredFinding kept;
  kept.finding = pursuit.sighting.finding;
  kept.cause.also = pursuit.companions;  // its case shows them all
  kept.note = "a case of production size is kept as its recipe, and not shrunk";
  Keep(pursuit.sighting, std::move(kept));
}

void WorkerPool::Keep(const Sighting& sighting, StoredFinding kept) {
  Sighting stored = campaign_state_.Store(sighting, std::move(kept));
  Report({.kind = CampaignEvent::Kind::kStored,
          .sighting = stored,
          .finding = campaign_state_.Ranked(stored)});
}

// They do not become sightings, since no recipe shows them, but their cases are stored.
void WorkerPool::StoreOtherFindings(const std::string& target, const std::vector<Case>& others) {
  for (const Case& other : others) {
    const std::string signature = other.finding.Signature();
    const std::vector<Sighting> known = campaign_state_.AllSightings();
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

}  // namespace plumbline::fuzz
