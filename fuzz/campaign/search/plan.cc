// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/campaign/search/covering.h"
#include "fuzz/gpu/production/recipe.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

// The first two generations are drawn before there are results.
constexpr int64_t kAllBlind = 2 * kGeneration;

// Shuffles by key: a defect's place in a list must not decide after how many cases it is found.
template <class T>
void Shuffle(uint64_t seed, std::vector<T>* list) {
  for (size_t i = list->size(); i > 1; --i) std::swap((*list)[i - 1], (*list)[Mix(seed, i) % i]);
}

// Takes one case of every regime, round after round, so that the first round has one of each.
std::vector<Recipe> LevelOneInRounds(uint64_t seed, const std::string& only) {
  std::map<std::string, std::vector<Recipe>> by_regime;
  for (int64_t i = 0; i < LevelOneCases(); ++i) {
    Recipe recipe = DrawLevelOne(seed, i);
    if (only.empty() || recipe.regime == only) by_regime[recipe.regime].push_back(std::move(recipe));
  }
  std::vector<std::string> order;
  size_t rounds = 0;
  for (auto& [regime, recipes] : by_regime) {
    Shuffle(Mix(seed, order.size()), &recipes);
    order.push_back(regime);
    rounds = std::max(rounds, recipes.size());
  }
  Shuffle(seed, &order);
  std::vector<Recipe> all;
  for (size_t round = 0; round < rounds; ++round) {
    for (const std::string& regime : order) {
      if (round < by_regime[regime].size()) all.push_back(by_regime[regime][round]);
    }
  }
  return all;
}

// Returns the shard's elements of a list.
template <class T>
std::vector<T> ShareOf(const std::vector<T>& list, const Shard& shard) {
  std::vector<T> share;
  for (auto i = static_cast<size_t>(shard.number); i < list.size();
       i += static_cast<size_t>(shard.of)) {
    share.push_back(list[i]);
  }
  return share;
}

}  // namespace

std::string_view Name(Phase phase) {
  constexpr std::string_view kNames[] = {"recipe", "corpus", "level one", "search"};
  return kNames[static_cast<int>(phase)];
}

std::vector<std::string> RegimesOf(const CaseOptions& options) {
  if (!options.regime.empty()) return {options.regime};
  std::vector<std::string> names;
  for (const Regime& regime : Regimes()) names.emplace_back(regime.name);
  return names;
}

std::string WhyOf(std::string_view name) {
  if (name == kCorpusRegime) return "a case that was kept";
  if (name == kProductionRegime) return "as large as the operator is used";
  for (const Regime& regime : Regimes()) {
    if (regime.name == name) return std::string(regime.why);
  }
  return {};
}

Plan::Plan(const CaseOptions& options, const std::vector<std::filesystem::path>& corpus)
    : options_(options), search_(!options.blind && !options.production) {
  if (!options.recipe.empty()) {
    std::string unused;  // Objection() has parsed it before
    Recipe recipe;
    Parse(options.recipe, &recipe, &unused, options.MaxElements());
    recipe_ = std::move(recipe);
    return;
  }
  corpus_ = ShareOf(corpus, options.shard);
  if (search_) level_one_ = ShareOf(LevelOneInRounds(options.seed, options.regime), options.shard);
}

Plan::Place Plan::At(int64_t index) const {
  if (recipe_) return {.phase = Phase::kRecipe, .number = 0};
  const auto stored = static_cast<int64_t>(corpus_.size());
  const auto first = static_cast<int64_t>(level_one_.size());
  if (index < stored) return {.phase = Phase::kCorpus, .number = index};
  if (index < stored + first) return {.phase = Phase::kLevelOne, .number = index - stored};
  const int64_t number = index - stored - first;
  if (!search_) return {.number = number};
  if (options_.gate) return InGate(number);
  // No case is guided up to the end of the second generation.
  const int64_t unguided = std::max<int64_t>(0, kAllBlind - stored - first);
  return HasCovering() ? InSearch(number, unguided) : WithoutDesign(number, unguided);
}

Plan::Place Plan::WithoutDesign(int64_t number, int64_t unguided) const {
  if (number < unguided) return {.number = number};
  const int64_t rest = number - unguided;
  return rest % 2 == 0 ? Place{.number = unguided + rest / 2}
                       : Place{.number = rest / 2, .guided = true};
}

int64_t Plan::DesignRows() const {
  const Shard& shard = options_.shard;
  return (CoveringDesign::kTripleRows - shard.number + shard.of - 1) / shard.of;
}

// Even numbers are blind and odd ones are rows of the design, until these are used up.
Plan::Place Plan::InGate(int64_t number) const {
  const int64_t rows = HasCovering() ? DesignRows() : 0;
  if (number >= 2 * rows) return {.number = number - rows};
  return number % 2 == 0 ? Place{.number = number / 2} : Place{.number = number / 2, .covering = true};
}

// Even numbers are blind. Odd ones are rows of the design before there are results, then in turn with
// guided ones, and guided once the shard's rows are used up.
Plan::Place Plan::InSearch(int64_t number, int64_t unguided) const {
  if (number % 2 == 0) return {.number = number / 2};
  const int64_t odd = number / 2, early = unguided / 2;  // among the odd ones
  const int64_t rows = DesignRows();
  if (odd < early) return {.number = odd, .covering = true};
  const int64_t late = odd - early, late_rows = std::max<int64_t>(rows - early, 0);
  if (late < 2 * late_rows) {
    return late % 2 == 0 ? Place{.number = early + late / 2, .covering = true}
                         : Place{.number = late / 2, .guided = true};
  }
  return {.number = late - late_rows, .guided = true};
}

Recipe Plan::Blind(int64_t number) const {
  if (recipe_) return *recipe_;
  if (options_.production) return DrawProduction(options_.seed, number);
  // Draws go through the regimes in turn, so shards take whole rounds in turn.
  const auto walk = options_.regime.empty() ? static_cast<int64_t>(Regimes().size()) : 1;
  const Shard& shard = options_.shard;
  const int64_t index = (number / walk * shard.of + shard.number) * walk + number % walk;
  return DrawRecipe(options_.seed, static_cast<uint64_t>(index), options_.regime);
}

uint64_t Plan::GuidedSeed(int64_t number) const {
  constexpr uint64_t kGuided = 0x67756964;  // "guid": keeps these seeds apart from other draws
  const Shard& shard = options_.shard;
  return Mix(Mix(options_.seed, kGuided), static_cast<uint64_t>(number * shard.of + shard.number));
}

}  // namespace plumbline::fuzz
