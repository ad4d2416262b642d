// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/search.h"

#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/campaign/search/features.h"
#include "fuzz/recipe/levels.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/recipe/steps.h"

namespace plumbline::fuzz {
namespace {

// Rewards of the bandit. A rise of the tightness from 0 to the bound has the reward 1.
constexpr double kNewCell = 0.1;
constexpr double kNewSignature = 10;

}  // namespace

Search::Search(const Plan& plan, const std::vector<std::string>& regimes,
               std::vector<TargetDraws> targets)
    : plan_(plan), targets_(std::move(targets)), coverage_(targets_.size()), yields_(targets_.size()) {
  const auto nothing = std::make_shared<const Snapshot>(Snapshot{{}, Bandit(regimes), {}, {}});
  snapshots_ = {nothing};
  for (const TargetDraws& target : targets_) {
    designs_.emplace_back(plan.seed(), plan.HasCovering(), target.levels());
    covered_.emplace_back(plan.HasCovering(), target.levels());
  }
}

Recipe Search::Draw(int64_t index, size_t target) {
  const int64_t item = index * std::ssize(targets_) + static_cast<int64_t>(target);
  const auto [entry, fresh] = drawn_.try_emplace(item);
  if (fresh) {
    Recipe draw = DrawAfresh(index, target);
    // A recipe that the user wrote is kept as written.
    const bool written = plan_.At(index).phase == Phase::kRecipe;
    entry->second = written ? std::move(draw) : targets_[target].Of(std::move(draw));
  }
  return entry->second;
}

Recipe Search::DrawAfresh(int64_t index, size_t target) {
  const Plan::Place place = plan_.At(index);
  if (place.phase == Phase::kLevelOne) return plan_.LevelOne(place.number);
  if (place.covering) {
    const int64_t row = plan_.CoveringRow(place.number);
    return DrawWithLevels(plan_.seed(), static_cast<uint64_t>(row), designs_[target].At(row));
  }
  if (!place.guided) return plan_.Blind(place.number);
  const int64_t since = taken_ - plan_.KnownTo(index / kGeneration);
  return Guided(plan_.GuidedSeed(place.number), **(snapshots_.end() - 1 - since));
}

Recipe Search::Guided(uint64_t seed, const Snapshot& from) const {
  const std::string& regime = from.bandit.Choose(static_cast<uint32_t>(Mix(seed, 0) >> 32));
  const auto elites = from.by_regime.find(regime);
  if (elites == from.by_regime.end() || Mix(seed, 1) % 8 == 0) return DrawRecipe(seed, 0, regime);
  const Recipe& parent = elites->second[Mix(seed, 2) % elites->second.size()]->recipe;
  // The other parent has the same aim: a sharp case must not become one whose bounds say nothing.
  const std::vector<const Archive::Elite*>& others = from.by_aim.at(AimOf(regime));
  return TakeStep(parent, others[Mix(seed, 3) % others.size()]->recipe, Mix(seed, 4));
}

void Search::Snapshot::Sort() {
  by_regime.clear();
  by_aim.clear();
  for (const auto& [niche, elite] : archive.elites()) {
    by_regime[elite.recipe.regime].push_back(&elite);
    by_aim[AimOf(elite.recipe.regime)].push_back(&elite);
  }
}

void Search::Take(int64_t item, CaseRecord record, std::chrono::milliseconds elapsed, bool planned) {
  const auto per_generation = kGeneration * std::ssize(targets_);
  waiting_[item / per_generation].try_emplace(item, Entry{std::move(record), elapsed, planned});
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == taken_ &&
                                      static_cast<int64_t>(first->second.size()) == per_generation;
       first = waiting_.begin()) {
    TakeIn(first->second);
    waiting_.erase(first);
  }
}

void Search::Finish() {
  // The statistics count incomplete generations; nothing is drawn from these.
  for (const auto& [number, generation] : std::exchange(waiting_, {})) TakeIn(generation);
}

void Search::TakeIn(const Generation& generation) {
  auto next = std::make_shared<Snapshot>(*snapshots_.back());
  for (const auto& [item, entry] : generation) Reckon(item, entry, next.get());
  drawn_.erase(drawn_.begin(), drawn_.lower_bound((taken_ + 1) * kGeneration * std::ssize(targets_)));
  next->Sort();
  next->bandit.Age();
  snapshots_.push_back(std::move(next));
  ++taken_;
  while (std::ssize(snapshots_) > taken_ + 1 - plan_.KnownTo(taken_)) snapshots_.pop_front();
}

void Search::Reckon(int64_t item, const Entry& entry, Snapshot* snapshot) {
  const auto target = static_cast<size_t>(item % std::ssize(targets_));
  const int64_t index = item / std::ssize(targets_);
  const Plan::Place place = plan_.At(index);
  const CaseRecord& record = entry.record;
  const bool blind = place.Blind();
  if (place.covering && record.Judged() && entry.planned) {
    const Levels& row = designs_[target].At(plan_.CoveringRow(place.number));
    covered_[target].Mark(targets_[target].LevelsOf(row, Draw(index, target)));
  }
  if (place.phase == Phase::kCorpus || !entry.planned) {  // it has no recipe that a step could change
    AddTo(&yields_[target], record, false, 0);
    return;
  }
  const Recipe recipe = Draw(index, target);
  const std::vector<std::string> cells = CellsOf(record, recipe);
  int64_t fresh = 0;
  if (!cells.empty()) fresh = coverage_[target].Add(cells, blind, entry.elapsed);
  AddTo(&yields_[target], record, blind, fresh);
  double reward = kNewCell * static_cast<double>(fresh) + snapshot->archive.Add(target, record, recipe);
  for (const std::string& signature : record.signatures) {
    if (signatures_.emplace(target, signature).second) reward += kNewSignature;
  }
  // Costs in multiply-adds of one product, about: 65 536 rows of one column take as long as 10^8 of
  // them.
  constexpr double kRow = 2'000, kColumn = 500;
  const auto n = static_cast<double>(recipe.n), v = static_cast<double>(recipe.v);
  snapshot->bandit.Add(record.regime, reward,
                       n * v * static_cast<double>(recipe.h) + kRow * n + kColumn * v);
}

}  // namespace plumbline::fuzz
