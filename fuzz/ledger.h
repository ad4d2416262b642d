// SPDX-License-Identifier: Apache-2.0
//
// The state of a campaign that its threads share: which items are done, what was counted, what was seen
// and what is still to be shrunk. Every change is in the journal before it is visible here, and each
// method is atomic.

#ifndef PLUMBLINE_FUZZ_LEDGER_H_
#define PLUMBLINE_FUZZ_LEDGER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/campaign_options.h"
#include "fuzz/case_class.h"
#include "fuzz/case_runner.h"
#include "fuzz/journal.h"
#include "fuzz/sighting.h"
#include "fuzz/tally.h"

namespace plumbline::fuzz {

// Where a case came from.
struct Item {
  int64_t number = 0;  // index * targets + target
  size_t target = 0;
  std::string recipe;
  std::string regime;
  CaseClass case_class;
  // ExamineOptions::seed: the recipe's own, so that its line alone reproduces the case.
  uint64_t seed = 0;
  double arbiter_cost = 0;  // about, should it pass and be asked about (SpreadCost)
};

class Ledger {
 public:
  // `options` must outlive the ledger and not change.
  Ledger(const CampaignOptions& options, JournalState state, std::unique_ptr<Journal> journal);

  std::chrono::milliseconds Elapsed() const;  // over all runs
  // The next item within budget and stop_after; nullopt when there is none.
  std::optional<Item> NextItem();
  // To be called before the item is run.
  void Start(const Item& item) { journal_->Start(item.number); }
  // A sighting that is to be shrunk and stored, taken off the list; in order of their being seen.
  std::optional<Sighting> NextPending();

  // Whether the result holds a signature that would become a sighting.
  bool ShowsNew(const Item& item, const CaseResult& result);
  // A judged case: journaled, counted, and what it showed for the first time, worst first, also put on
  // the list of NextPending.
  std::vector<Sighting> Record(const Item& item, const Judged& judged);
  // The sighting as it is now, with its kept.
  Sighting Store(const Sighting& sighting, StoredFinding kept);
  // The number of faults of the harness so far, this one included.
  int64_t CountFault(const std::string& what);

  // Why the journal cannot be written; empty while it can.
  std::string Failure() { return journal_->Failure(); }
  // Ends the run.
  void Close() { journal_->Clock(Elapsed()); }

  std::vector<std::pair<std::string, Tally>> Tallies();  // in the order of the targets
  std::vector<Sighting> Sightings();                     // in the order of their items
  int64_t Faults();

 private:
  bool Full() const;  // stop_after is reached

  const CampaignOptions& options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::chrono::milliseconds before_;  // elapsed in earlier runs
  std::unique_ptr<Journal> journal_;
  std::mutex mutex_;
  JournalState state_;
  std::vector<SightingKey> pending_;  // the next one last
  int64_t next_ = 0;
  int64_t faults_;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_LEDGER_H_
