// SPDX-License-Identifier: Apache-2.0
//
// The guided half of a campaign, and the results of its cases.
//
// Cases fall into generations of kGeneration indices. Generation g is drawn from the results of the
// first KnownTo(g) (fuzz/campaign/search/plan.h), taken in by the order of their items. So a case
// depends neither on the number of jobs nor on which of them was faster, and the next generations start
// while the last cases of one are running. Recipes are not stored: taking the same records in again, in
// any order within a generation, gives the same search.
//
// Device code has no edge coverage that helps, so the search climbs in error over bound. A guided case
// takes a regime from the bandit, one of its elites from the archive, and changes it by one or a few
// steps (fuzz/recipe/steps.h). If there is no elite, or one time in eight, it is a fresh draw of that
// regime.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/campaign/search/archive.h"
#include "fuzz/campaign/search/bandit.h"
#include "fuzz/campaign/search/coverage.h"
#include "fuzz/campaign/search/covering.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/record.h"
#include "fuzz/campaign/search/regime_yield.h"
#include "fuzz/campaign/search/target_draws.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {

class Search {
 public:
  // The generations that may be ahead of the first incomplete one in a campaign without guided cases.
  static constexpr int64_t kMostAhead = 256;

  // `plan` must outlive this. `targets`: how each target gets its draws; item = index * their number +
  // target.
  Search(const Plan& plan, const std::vector<std::string>& regimes, std::vector<TargetDraws> targets);

  // Returns true if every result is known that the case at `index` may depend on. In a campaign without
  // guided cases kMostAhead alone limits it, since the records of what is ahead are kept.
  bool Ready(int64_t index) const {
    const int64_t generation = index / kGeneration;
    return plan_.HasGuided() ? plan_.KnownTo(generation) <= taken_ : generation <= taken_ + kMostAhead;
  }
  // Draws a target's recipe. Precondition: Ready(index), and not a case of the corpus.
  Recipe Draw(int64_t index, size_t target = 0);

  // Takes in a judged item, each once, in any order. `elapsed`: the campaign's clock. The records of
  // generations that are not complete are kept, and of those behind them.
  // `planned`: the record is of the case that the plan has there. One of another plan counts for its
  // regime alone: its recipe is not known here.
  void Take(int64_t item, CaseRecord record, std::chrono::milliseconds elapsed, bool planned = true);
  // Takes in the rest of incomplete generations at the end of the campaign. No Draw may follow.
  void Finish();

  // Return a target's coverage and yields after the last generation that was taken in.
  const Coverage& coverage(size_t target) const { return coverage_[target]; }
  const RegimeYields& yields(size_t target) const { return yields_[target]; }
  // Returns the tuples of the covering design, marked where a case of the design was judged.
  const LevelTuples& covered(size_t target) const { return covered_[target]; }

 private:
  // The elites and shares from which a generation is drawn.
  struct Snapshot {
    Archive archive;
    Bandit bandit;
    // The archive's elites by regime and by its aim, each by niche. These indices exist because a draw
    // that went through the whole archive took longer than a small case.
    std::map<std::string, std::vector<const Archive::Elite*>> by_regime;
    std::map<Aim, std::vector<const Archive::Elite*>> by_aim;

    void Sort();  // called once the archive is complete
  };
  struct Entry {
    CaseRecord record;
    std::chrono::milliseconds elapsed;
    bool planned = true;
  };
  using Generation = std::map<int64_t, Entry>;  // by item

  Recipe DrawAfresh(int64_t index, size_t target);
  Recipe Guided(uint64_t seed, const Snapshot& from) const;
  // Makes the next snapshot from the last one and the generation's results.
  void TakeIn(const Generation& generation);
  void Reckon(int64_t item, const Entry& entry, Snapshot* snapshot);

  const Plan& plan_;
  const std::vector<TargetDraws> targets_;
  // By item. They are used again when the result is taken in: drawing took 2 % of the CPU time.
  std::map<int64_t, Recipe> drawn_;
  std::map<int64_t, Generation> waiting_;
  int64_t taken_ = 0;  // generations that are taken in
  // The last one is of all generations that are taken in, each other of one fewer than the next. The
  // first is the one that generation taken_ is drawn from.
  std::deque<std::shared_ptr<const Snapshot>> snapshots_;
  std::vector<Coverage> coverage_;  // by target
  std::vector<RegimeYields> yields_;
  std::deque<CoveringDesign> designs_;  // by target
  std::vector<LevelTuples> covered_;
  std::set<std::pair<size_t, std::string>> signatures_;
};

}  // namespace plumbline::fuzz
