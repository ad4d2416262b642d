// SPDX-License-Identifier: Apache-2.0
//
// The order of a campaign's cases: first the stored ones (corpus), then one case of every regime and
// family of shapes (level one, after TestFloat's level 1), then the search, until the budget ends. In
// the search every other case is a blind draw. Half of the others are rows of a covering design
// (fuzz/campaign/search/covering.h) until its triples are done, and the rest are guided. Case
// `index` is a pure function of the options; in the search, of the options and of the results of
// earlier generations (fuzz/campaign/search/search.h).
//
// Shard i of n (0 <= i < n) has every n-th case of each phase, and its own blind draws: no two shards
// share one. Indices count the cases of one shard.
//
// A campaign of production size has blind draws alone, those of fuzz/gpu/production/recipe.h.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/campaign/search/options.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

enum class Phase : uint8_t { kRecipe, kCorpus, kLevelOne, kSearch };

std::string_view Name(Phase phase);  // "recipe", "corpus", "level one", "search"

// The number of this order and of its draws, raised whenever an index stands for another case.
inline constexpr int64_t kPlan = 3;

// Guided cases are drawn from the results of earlier generations. A generation is this many indices.
inline constexpr int64_t kGeneration = 512;

// Returns the number of generations, from the first on, whose results a generation is drawn from. The
// newest of them lies `lag` generations before it. Early in a campaign it lies a quarter of the
// campaign before, at least kLeastLag generations, so that few generations are blind.
constexpr int64_t KnownTo(int64_t generation, int64_t lag) {
  return std::max<int64_t>(generation + 1 - std::clamp(generation / 4, kLeastLag, lag), 0);
}

inline constexpr std::string_view kCorpusRegime = "corpus";
inline constexpr std::string_view kProductionRegime = "production";  // DrawProduction's

class Plan {
 public:
  struct Place {
    Phase phase = Phase::kSearch;
    int64_t number = 0;   // within the phase; in the search, within the blind, covering or guided cases
    bool guided = false;  // in the search: drawn from earlier results
    bool covering = false;  // in the search: a row of the covering design
    bool Blind() const { return phase == Phase::kSearch && !guided && !covering; }
  };

  // `corpus`: all case files, in their order.
  Plan(const CaseOptions& options, const std::vector<std::filesystem::path>& corpus);

  Place At(int64_t index) const;
  // These take Place::number.
  const std::filesystem::path& CorpusFile(int64_t number) const {
    return corpus_[static_cast<size_t>(number)];
  }
  const Recipe& LevelOne(int64_t number) const { return level_one_[static_cast<size_t>(number)]; }
  Recipe Blind(int64_t number) const;
  // Returns the row of the whole campaign's design that is this shard's covering case `number`.
  int64_t CoveringRow(int64_t number) const {
    return number * options_.shard.of + options_.shard.number;
  }
  // As the function, for this campaign's lag.
  int64_t KnownTo(int64_t generation) const { return fuzz::KnownTo(generation, options_.lag); }
  // True if the campaign has covering cases: it draws from all regimes, and not blindly.
  bool HasCovering() const { return search_ && !recipe_ && options_.regime.empty(); }
  // True if a case may be guided, and so wait for the results of earlier ones.
  bool HasGuided() const { return search_ && !options_.gate; }
  uint64_t seed() const { return options_.seed; }
  // Returns a number that no other guided case of the campaign has, for its own seed.
  uint64_t GuidedSeed(int64_t number) const;

 private:
  Place InGate(int64_t number) const;
  Place InSearch(int64_t number, int64_t unguided) const;
  int64_t DesignRows() const;  // this shard's
  Place WithoutDesign(int64_t number, int64_t unguided) const;

  const CaseOptions options_;
  const bool search_;
  std::optional<Recipe> recipe_;
  std::vector<std::filesystem::path> corpus_;  // this shard's
  std::vector<Recipe> level_one_;              // this shard's
};

// Returns the regimes that a campaign draws from: all, or the one that was asked for.
std::vector<std::string> RegimesOf(const CaseOptions& options);

// Returns the one line that the user sees for a regime; "" if there is none of that name.
std::string WhyOf(std::string_view regime);

}  // namespace plumbline::fuzz
