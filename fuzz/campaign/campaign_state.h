// SPDX-License-Identifier: Apache-2.0
//
// The state of a campaign that its threads share: finished items, totals, sightings and those still to
// be shrunk. Every change is in the journal before it is visible here, and each method is atomic.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/campaign/finding_groups.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/options.h"
#include "fuzz/campaign/progress.h"
#include "fuzz/campaign/ranking.h"
#include "fuzz/campaign/reach.h"
#include "fuzz/campaign/search/coverage.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/regime_yield.h"
#include "fuzz/campaign/search/search.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/recipe/class.h"
#include "fuzz/triage/sighting.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

// One work item: its number, its target, and the origin of its case.
struct Item {
  int64_t number = 0;  // index * targets + target; index as in fuzz/campaign/search/plan.h
  size_t target = 0;
  Phase phase = Phase::kSearch;
  std::string recipe;          // empty for a case of the corpus, which has
  std::filesystem::path file;  // this instead
  std::string regime;          // kCorpusRegime for such a case
  CaseClass case_class;
  // ExamineOptions::seed is the recipe's own, so that its line alone reproduces the case.
  uint64_t seed = 0;
  double arbiter_cost = 0;    // the arbiter's cost if it passes, about (SpreadCost)
  bool begins_group = false;  // it needs a fresh worker (ItemGroup)
};

// The items of a gate are run in groups of kGroupItems, each in a worker of its own and in their order.
// So what an item finds in its worker's memory does not depend on the number of jobs.
struct ItemGroup {
  int64_t next = 0, end = 0;        // the items that are left of it
  std::set<std::string> seen = {};  // signatures that an item of it has shown, not only once
  bool explained = false;           // a rounding explains one of them

  void Note(const Judged& judged);
};
inline constexpr int64_t kGroupItems = 128;
// Returns true if a value of the result is beyond its bound, and `known` says no to the signature that
// it would have if no rounding explained it.
bool MayBeUnexplained(const CaseResult& result, const std::function<bool(const std::string&)>& known);
// See CampaignState::MayHideAnother.
inline constexpr int64_t kToldApart = 128;
inline constexpr uint64_t kToldApartEvery = 8;

class CampaignState {
 public:
  // `options`, `plan` and `search` must outlive this, and the first two must not change. `search` has
  // taken in the records of the journal.
  CampaignState(const CampaignOptions& options, const Plan& plan, Search* search, JournalState state,
                std::unique_ptr<Journal> journal);

  std::chrono::milliseconds Elapsed() const;  // over all runs
  // Returns the next item within budget and stop_after. nullopt if there is none, or (with `*wait`) if
  // it depends on cases that are still running.
  // `group`: of the job that asks; a gate goes on with it, or begins another. No other campaign needs
  // it.
  std::optional<Item> NextItem(bool* wait, ItemGroup* group = nullptr);
  // Hands back an item that was taken and not started: it is the next one, for any job.
  void PutBack(Item item);
  // Returns whether stop_after is reached: an item that was taken before is not begun any more.
  bool Stopped();
  // Must be called before the item is run.
  void Start(const Item& item) { journal_->Start(item.number); }
  // Takes the gravest finding that is to be shrunk and stored off the list, if `allowed`, asked with
  // the number of those on it, permits one more. `companions`: the signatures that are parts of it so
  // far.
  std::optional<Sighting> NextPending(const std::function<bool(int64_t waiting)>& allowed,
                                      std::vector<std::string>* companions);
  // Returns whether a finding was taken off the list and is not stored: its end may add others.
  bool Pursuing();

  // Returns true if the result holds a signature that would become a sighting.
  bool ShowsNew(const Item& item, const CaseResult& result);
  // Returns true if a rounding explains a sighting of the target, and the result has values beyond
  // their bounds of which no case is known that none explains: whether this is one is worth telling. It
  // is true of the first kToldApart such cases, and then of one in kToldApartEvery, by their seeds.
  bool MayHideAnother(const Item& item, const CaseResult& result);
  // Journals and counts a judged case, which took `seconds`. Returns its new sightings, grouped
  // (finding_groups.h), the leader first; it is also put on the list of NextPending.
  std::vector<Sighting> Record(const Item& item, const Judged& judged, double seconds);
  // Stores what was kept, and returns the sighting with it. It may then be a part of another finding,
  // and parts of it that its problem does not show may be on the list of NextPending.
  Sighting Store(const Sighting& sighting, StoredFinding kept);
  // Journals a fault of the harness. Returns their number so far, this one included.
  int64_t CountFault(const std::string& what);

  // Returns why the journal cannot be written; empty if it can.
  std::string Failure() { return journal_->Failure(); }
  // Ends the run.
  void Close();

  std::vector<std::pair<std::string, Tally>> Tallies();  // in the order of the targets
  std::vector<Sighting> AllSightings();                  // in the order of their items
  FindingCounts Findings();                              // sightings that are parts of none
  std::map<std::string, Reach> Reaches();                // by target
  RankedFinding Ranked(const Sighting& sighting);        // the finding that it is a part of, so far
  int64_t Faults();
  Phase CurrentPhase();  // the phase of the item that was handed out last
  // Returns the number of cells that all targets together have shown, and when the newest was seen.
  std::pair<int64_t, std::chrono::milliseconds> Cells();

 private:
  bool Full() const;  // true if stop_after is reached
  // Returns the number of the next item, if there is one.
  std::optional<int64_t> NextNumber(bool* wait);
  std::optional<int64_t> NextInGroup(bool* wait, ItemGroup* group);
  void Regroup(const Parts& parts, const std::string& target);

  const CampaignOptions& options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::chrono::milliseconds before_;  // elapsed in earlier runs
  const Plan& plan_;
  std::unique_ptr<Journal> journal_;
  std::mutex mutex_;  // guards what follows
  Search& search_;
  JournalState state_;
  std::vector<SightingKey> pending_;  // findings
  int64_t pursuing_ = 0;
  int64_t next_ = 0, recorded_ = 0;
  std::map<std::string, int64_t> told_apart_;  // by target
  std::vector<Item> put_back_;
  std::optional<Phase> phase_;
  int64_t faults_;
};

}  // namespace plumbline::fuzz
