// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/campaign_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/examine/second_opinion.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/triage/severity.h"

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
    if (!sighting.kept && sighting.part_of.empty()) pending_.push_back(key);
  }
  // Those that were held back by a lower stop_after.
  const Sightings before = state_.sightings;
  for (const auto& [key, sighting] : before) {
    if (!Full()) Regroup(TakeApart(state_.sightings, sighting), key.first);
  }
}

std::chrono::milliseconds CampaignState::Elapsed() const {
  return before_ + std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::steady_clock::now() - begin_);
}

bool CampaignState::Full() const {
  const int64_t limit = options_.GetStopAfter();
  return limit > 0 && std::ranges::count_if(state_.sightings, [this](const auto& entry) {
                        const auto& [target, signature] = entry.first;
                        return entry.second.part_of.empty() &&
                               !Accepting(options_.known, target, signature, "");
                      }) >= limit;
}

std::optional<int64_t> CampaignState::NextNumber(bool* wait) {
  const auto targets = static_cast<int64_t>(options_.targets.size());
  const std::optional<int64_t> cases = options_.Cases();
  while (state_.Done(next_)) ++next_;
  if (cases && next_ >= *cases) return std::nullopt;
  *wait = !search_.Ready(next_ / targets);
  return *wait ? std::nullopt : std::optional(next_++);
}

std::optional<int64_t> CampaignState::NextInGroup(bool* wait, ItemGroup* group) {
  const int64_t cases = *options_.Cases();
  if (group->next == group->end) {
    *group = {.next = next_, .end = std::min(next_ + kGroupItems, cases)};
    next_ = group->end;
  }
  // A finding of an item that is not recorded yet may be there to be shrunk.
  *wait = group->next == group->end && recorded_ < cases;
  return group->next < group->end ? std::optional(group->next++) : std::nullopt;
}

std::optional<Item> CampaignState::NextItem(bool* wait, ItemGroup* group) {
  *wait = false;
  const auto targets = static_cast<int64_t>(options_.targets.size());
  Item item;
  Recipe recipe;
  {
    const std::lock_guard lock(mutex_);
    if (Full() || (!options_.Cases() && Elapsed() >= options_.GetBudget().time)) return std::nullopt;
    if (!put_back_.empty()) {
      item = std::move(put_back_.back());
      put_back_.pop_back();
      return item;
    }
    const bool gate = options_.gate;
    item.begins_group = gate && group->next == group->end;
    const std::optional<int64_t> number = gate ? NextInGroup(wait, group) : NextNumber(wait);
    if (!number) return std::nullopt;
    item.number = *number;
    const int64_t index = item.number / targets;
    item.target = static_cast<size_t>(item.number % targets);
    const Plan::Place place = plan_.At(index);
    item.phase = place.phase;
    if (place.phase == Phase::kCorpus) {
      item.file = plan_.CorpusFile(place.number);
    } else {
      recipe = search_.Draw(index, item.target);
    }
    if (phase_ != item.phase) {
      phase_ = item.phase;
      journal_->Entered(item.phase, item.number);
    }
  }
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

std::optional<Sighting> CampaignState::NextPending(const std::function<bool(int64_t waiting)>& allowed,
                                                   std::vector<std::string>* companions) {
  const std::lock_guard lock(mutex_);
  // In a gate one finding is shrunk after another: whether two are one depends on which is stored.
  if (options_.gate && pursuing_ > 0) return std::nullopt;
  if (pending_.empty() || !allowed(static_cast<int64_t>(pending_.size()))) return std::nullopt;
  const auto next = std::ranges::min_element(pending_, [this](const auto& a, const auto& b) {
    return Leads(state_.sightings.at(a), state_.sightings.at(b));
  });
  const SightingKey key = *next;
  pending_.erase(next);
  ++pursuing_;
  for (const auto& [other, sighting] : state_.sightings) {
    if (companions != nullptr && other.first == key.first && sighting.part_of == key.second &&
        !sighting.kept)
      companions->push_back(other.second);
  }
  return state_.sightings.at(key);
}

bool CampaignState::Pursuing() {
  const std::lock_guard lock(mutex_);
  return pursuing_ > 0;
}

void CampaignState::Regroup(const Parts& parts, const std::string& target) {
  Apply(parts, target, &state_.sightings);
  for (const auto& [signature, part_of] : parts) {
    const SightingKey key(target, signature);
    if (part_of.empty() && !state_.sightings.at(key).kept) pending_.push_back(key);
  }
}

bool CampaignState::ShowsNew(const Item& item, const CaseResult& result) {
  const std::string& target = options_.targets[item.target];
  const std::lock_guard lock(mutex_);
  return !Full() &&
         std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& finding) {
           return !state_.sightings.contains({target, finding.Signature()});
         });
}

bool MayBeUnexplained(const CaseResult& result, const std::function<bool(const std::string&)>& known) {
  return std::ranges::any_of(result.findings, [&](Finding finding) {
    if (finding.kind != FindingKind::kBound || finding.suspect) return false;
    finding.unexplained = true;
    return !known(finding.Signature());
  });
}

bool CampaignState::MayHideAnother(const Item& item, const CaseResult& result) {
  const std::string& target = options_.targets[item.target];
  const std::lock_guard lock(mutex_);
  if (Full()) return false;
  const bool explained = std::ranges::any_of(state_.sightings, [&](const auto& entry) {
    const Sighting& sighting = entry.second;
    return sighting.target == target && (!sighting.finding.shortcut.empty() ||
                                         (sighting.kept && !sighting.kept->finding.shortcut.empty()));
  });
  const bool hides = MayBeUnexplained(result, [&](const std::string& signature) {
    return state_.sightings.contains({target, signature});
  });
  if (!explained || !hides) return false;
  return told_apart_[target]++ < kToldApart || Mix(item.seed, 41) % kToldApartEvery == 0;
}

std::vector<Sighting> CampaignState::Record(const Item& item, const Judged& judged, double seconds) {
  const std::string& target = options_.targets[item.target];
  CaseRecord record = RecordOf(judged.result, judged.retried, item.case_class);
  record.regime = item.regime;
  record.us = std::llround(1e6 * seconds);
  std::vector<Sighting> fresh, parts;
  const std::lock_guard lock(mutex_);
  ++recorded_;
  const bool full = Full();
  // A finding that this case shows as well, seen again on the same case; what is not goes with it.
  const Sighting* shown = nullptr;
  // The leader of this very case, if the run before ended between its sighting and its end.
  const Sighting* leader = nullptr;
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
      if (sighting.reproduced && shown == nullptr) shown = &FindingOf(state_.sightings, sighting);
      if (sighting.item == item.number && sighting.part_of.empty() && !sighting.kept)
        leader = &sighting;
      // The same item comes again if the run before ended between its sighting and its end.
      if (sighting.item == item.number || sighting.more.size() >= kMoreRecipes || item.recipe.empty())
        continue;
      journal_->More(key, item.recipe);
      sighting.more.push_back(item.recipe);
      continue;
    }
    if (full) continue;
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
    fresh.push_back(std::move(sighting));
  }
  std::erase_if(fresh, [&](Sighting& sighting) {
    const Sighting* finding = leader != nullptr ? leader : sighting.reproduced ? nullptr : shown;
    if (finding == nullptr) return false;
    sighting.part_of = finding->signature;
    parts.push_back(sighting);
    return true;
  });
  Group(&fresh);
  if (!fresh.empty()) pending_.emplace_back(target, fresh.front().signature);
  fresh.insert(fresh.end(), parts.begin(), parts.end());
  for (const Sighting& sighting : fresh) {
    journal_->Sighted(sighting);
    state_.sightings.emplace(SightingKey(target, sighting.signature), sighting);
  }
  const std::chrono::milliseconds elapsed = Elapsed();
  if (!Planted(HarnessDefect::kDoneBeforeSighting)) journal_->Done(item.number, elapsed, record);
  state_.tallies[target].Add(record);
  state_.reach[target].Add(record);
  search_.Take(item.number, std::move(record), elapsed);
  return fresh;
}

Sighting CampaignState::Store(const Sighting& sighting, StoredFinding kept) {
  const SightingKey key(sighting.target, sighting.signature);
  const std::lock_guard lock(mutex_);
  Sighting& stored = state_.sightings.at(key);
  stored.kept = std::move(kept);
  Parts parts = Join(state_.sightings, stored);
  if (!Full()) parts.merge(TakeApart(state_.sightings, stored));
  journal_->Stored(key, *stored.kept, parts);
  Regroup(parts, key.first);
  --pursuing_;
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

std::vector<Sighting> CampaignState::AllSightings() {
  const std::lock_guard lock(mutex_);
  std::vector<Sighting> sightings;
  for (const auto& [key, sighting] : state_.sightings) sightings.push_back(sighting);
  std::stable_sort(sightings.begin(), sightings.end(),
                   [](const Sighting& a, const Sighting& b) { return a.item < b.item; });
  return sightings;
}

FindingCounts CampaignState::Findings() {
  const std::lock_guard lock(mutex_);
  FindingCounts found;
  for (const auto& [key, sighting] : state_.sightings) {
    if (!sighting.part_of.empty()) continue;
    const Finding& finding = sighting.kept ? sighting.kept->finding : sighting.finding;
    ++(finding.suspect ? found.suspect : found.wrong);
  }
  return found;
}

std::map<std::string, Reach> CampaignState::Reaches() {
  const std::lock_guard lock(mutex_);
  return state_.reach;
}

RankedFinding CampaignState::Ranked(const Sighting& sighting) {
  const std::lock_guard lock(mutex_);
  std::vector<Sighting> parts;
  for (const auto& [key, each] : state_.sightings) {
    if (!each.part_of.empty()) parts.push_back(each);
  }
  return RankFindings({FindingOf(state_.sightings, sighting)}, parts, state_.reach).front();
}

int64_t CampaignState::Faults() {
  const std::lock_guard lock(mutex_);
  return faults_;
}

}  // namespace plumbline::fuzz
