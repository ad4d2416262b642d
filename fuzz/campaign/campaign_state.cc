// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/examine/second_opinion.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

CampaignState::CampaignState(const CampaignOptions& options, const Plan& plan, Search* search,
                             JournalState state, std::unique_ptr<Journal> journal)
    : options_(options),
      before_(state.elapsed),
      plan_(plan),
      journal_(std::move(journal)),
      search_(*search),
      state_(std::move(state)),
      faults_(state_.faults) {
  for (const auto& [key, sighting] : state_.sightings) {
    if (!sighting.kept) pending_.push_back(key);
  }
  std::sort(pending_.begin(), pending_.end(), [this](const SightingKey& a, const SightingKey& b) {
    return state_.sightings.at(a).item > state_.sightings.at(b).item;
  });
}

std::chrono::milliseconds CampaignState::Elapsed() const {
  return before_ + std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::steady_clock::now() - begin_);
}

bool CampaignState::Full() const {
  const int64_t limit = options_.GetStopAfter();
  return limit > 0 && static_cast<int64_t>(state_.sightings.size()) >= limit;
}

std::optional<Item> CampaignState::NextItem(bool* wait) {
  *wait = false;
  const auto targets = static_cast<int64_t>(options_.targets.size());
  Item item;
  Recipe recipe;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<int64_t> cases = options_.Cases();
    if (Full() || (!cases && Elapsed() >= options_.GetBudget().time)) return std::nullopt;
    if (!put_back_.empty()) {
      item = std::move(put_back_.back());
      put_back_.pop_back();
      return item;
    }
    while (state_.Done(next_)) ++next_;
    if (cases && next_ >= *cases) return std::nullopt;
    const int64_t index = next_ / targets;
    *wait = !search_.Ready(index);
    if (*wait) return std::nullopt;
    item.number = next_++;
    const Plan::Place place = plan_.At(index);
    item.phase = place.phase;
    if (place.phase == Phase::kCorpus) {
      item.file = plan_.CorpusFile(place.number);
    } else {
      recipe = search_.Draw(index);
    }
    if (phase_ != item.phase) {
      phase_ = item.phase;
      journal_->Entered(item.phase, item.number);
    }
  }
  item.target = static_cast<size_t>(item.number % targets);
  if (item.phase == Phase::kCorpus) {
    item.regime = kCorpusRegime;
    item.case_class = {.name = item.regime, .aim = "stress", .dtype = "any", .grads = "any"};
    return item;
  }
  // A recipe that the user wrote is kept as written.
  item.recipe = item.phase == Phase::kRecipe ? options_.recipe : Format(recipe);
  item.regime = recipe.regime;
  item.case_class = ClassOf(recipe);
  item.seed = recipe.seed;
  item.arbiter_cost = SpreadCost(recipe.seed, recipe.n, recipe.v, recipe.h);
  return item;
}

void CampaignState::PutBack(Item item) {
  const std::lock_guard lock(mutex_);
  put_back_.push_back(std::move(item));
}

bool CampaignState::Stopped() {
  const std::lock_guard lock(mutex_);
  return Full();
}

std::optional<Sighting> CampaignState::NextPending() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return std::nullopt;
  const SightingKey key = pending_.back();
  pending_.pop_back();
  return state_.sightings.at(key);
}

bool CampaignState::ShowsNew(const Item& item, const CaseResult& result) {
  const std::string& target = options_.targets[item.target];
  const std::lock_guard lock(mutex_);
  return !Full() &&
         std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& finding) {
           return !state_.sightings.contains({target, finding.Signature()});
         });
}

std::vector<Sighting> CampaignState::Record(const Item& item, const Judged& judged, double seconds) {
  const std::string& target = options_.targets[item.target];
  CaseRecord record = RecordOf(judged.result, judged.retried, item.case_class);
  record.regime = item.regime;
  record.us = std::llround(1e6 * seconds);
  std::vector<Sighting> fresh;
  const std::lock_guard lock(mutex_);
  if (Planted(HarnessDefect::kDoneBeforeSighting)) {
    journal_->Done(item.number, Elapsed(), record);
  }
  for (const std::string& signature : record.signatures) {
    if (record.fault) break;  // if the oracle contradicts itself, nothing is a finding
    const Finding& finding = *FindSignature(judged.result, signature);
    const bool once = judged.once.contains(signature);
    const SightingKey key(target, once ? signature + std::string(kOnce) : signature);
    if (const auto known = state_.sightings.find(key); known != state_.sightings.end()) {
      Sighting& sighting = known->second;
      // The same item comes again if the run before ended between its sighting and its end.
      if (sighting.item == item.number || sighting.more.size() >= kMoreRecipes || item.recipe.empty())
        continue;
      journal_->More(key, item.recipe);
      sighting.more.push_back(item.recipe);
      continue;
    }
    if (Full()) continue;
    Sighting sighting;
    sighting.target = target;
    sighting.signature = key.second;
    sighting.item = item.number;
    sighting.recipe = item.recipe;
    sighting.source = item.file;
    sighting.regime = item.regime;
    sighting.seconds = std::chrono::duration<double>(Elapsed()).count();
    sighting.finding = finding;
    sighting.reproduced = !once;
    journal_->Sighted(sighting);
    state_.sightings.emplace(key, sighting);
    fresh.push_back(std::move(sighting));
  }
  const std::chrono::milliseconds elapsed = Elapsed();
  if (!Planted(HarnessDefect::kDoneBeforeSighting)) journal_->Done(item.number, elapsed, record);
  state_.tallies[target].Add(record);
  search_.Take(item.number, std::move(record), elapsed);
  for (auto sighting = fresh.rbegin(); sighting != fresh.rend(); ++sighting) {
    pending_.emplace_back(target, sighting->signature);
  }
  return fresh;
}

Sighting CampaignState::Store(const Sighting& sighting, StoredFinding kept) {
  const SightingKey key(sighting.target, sighting.signature);
  const std::lock_guard lock(mutex_);
  journal_->Stored(key, kept);
  Sighting& stored = state_.sightings.at(key);
  stored.kept = std::move(kept);
  return stored;
}

int64_t CampaignState::CountFault(const std::string& what) {
  const std::lock_guard lock(mutex_);
  journal_->Fault(what);
  return ++faults_;
}

void CampaignState::Close() {
  const std::lock_guard lock(mutex_);
  journal_->Clock(Elapsed());
  search_.Finish();
}

Phase CampaignState::CurrentPhase() {
  const std::lock_guard lock(mutex_);
  return phase_.value_or(plan_.At(0).phase);
}

std::pair<int64_t, std::chrono::milliseconds> CampaignState::Cells() {
  const std::lock_guard lock(mutex_);
  std::pair<int64_t, std::chrono::milliseconds> seen{0, 0};
  for (size_t t = 0; t < options_.targets.size(); ++t) {
    seen.first += search_.coverage(t).cells();
    seen.second = std::max(seen.second, search_.coverage(t).newest());
  }
  return seen;
}

std::vector<std::pair<std::string, Tally>> CampaignState::Tallies() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, Tally>> tallies;
  for (const std::string& target : options_.targets)
    tallies.emplace_back(target, state_.tallies[target]);
  return tallies;
}

std::vector<Sighting> CampaignState::Sightings() {
  const std::lock_guard lock(mutex_);
  std::vector<Sighting> sightings;
  for (const auto& [key, sighting] : state_.sightings) sightings.push_back(sighting);
  std::stable_sort(sightings.begin(), sightings.end(),
                   [](const Sighting& a, const Sighting& b) { return a.item < b.item; });
  return sightings;
}

int64_t CampaignState::Faults() {
  const std::lock_guard lock(mutex_);
  return faults_;
}

}  // namespace plumbline::fuzz
