// SPDX-License-Identifier: Apache-2.0
//
// The journal of a campaign is DIR/journal.jsonl, one JSON object a line. It is appended to and never
// rewritten.
//
//   {"journal":2,"plumb":"0.1.0","campaign":{...}}         first line: what decides each case
//   {"phase":"search","item":ITEM}                         a phase's first item of this run
//   {"start":ITEM}                                         before a case
//   {"kind":K,"regime":R,"class":[NAME,AIM,DTYPE,GRADS]}   the meaning of K in the lines that follow
//   {"done":[ITEM,MS,US,K],"o":{...}}                      after a case: MS on the campaign's clock, US
//                                                          microseconds for it, and its CaseRecord
//   {"sighting":{...}}                                     a signature seen for the first time
//   {"more":{"target":T,"signature":S,"recipe":LINE}}      up to three further cases of it
//   {"stored":{"target":T,"signature":S,"kept":{...}}}     shrunk, confirmed, written
//   {"fault":WHAT}                                         a fault of the harness, see faults/
//   {"clock":ELAPSED}                                      a run's end
//
// ITEM is index * targets + target, index as in fuzz/campaign/search/plan.h.
//
// Each line is written with one write(2), so a crash of the supervisor tears at most the last line. A
// torn last line is cut off when the journal is opened again. An item is done when its "done" line is
// whole, and a sighting precedes the "done" of its case. So a resumed campaign repeats unfinished
// cases, counts nothing twice, and pursues sightings that were not stored.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_JOURNAL_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_JOURNAL_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/campaign/options.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/record.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

// A sighting's key: (target, signature).
using SightingKey = std::pair<std::string, std::string>;

// The small numbers of kinds in "done" lines.
using KindNumbers = std::map<std::pair<std::string, CaseClass>, int64_t>;  // by regime and class

struct JournalState {
  CampaignOptions options;
  std::vector<bool> done;                // by item; absent: not done
  std::vector<int64_t> unfinished;       // started, not done
  std::map<std::string, Tally> tallies;  // by target
  std::map<SightingKey, Sighting> sightings;
  int64_t faults = 0;
  std::chrono::milliseconds elapsed{0};
  KindNumbers kinds;
  std::string note;  // "the last line was torn and is dropped (53 bytes)"

  bool Done(int64_t item) const {
    return item < static_cast<int64_t>(done.size()) && done[static_cast<size_t>(item)];
  }
};

// Called for every item that is done, once each, in the order of the lines. The state then holds what
// came before the item, at least its options.
using OnDone = std::function<void(const JournalState& state, int64_t item, const CaseRecord&,
                                  std::chrono::milliseconds)>;

class Journal {
 public:
  // Begins a new journal in the existing folder `dir`. Null, with the reason, if there is one already.
  static std::unique_ptr<Journal> Create(const std::filesystem::path& dir,
                                         const CampaignOptions& options, std::string* error);
  // Reads the journal in `dir` and prepares it for appending. Null, naming the line, if it is damaged
  // anywhere but at its end. Null also while another process holds it.
  static std::unique_ptr<Journal> Open(const std::filesystem::path& dir, JournalState* state,
                                       std::string* error, const OnDone& on_done = {});
  // Reads as Open does, but changes nothing and takes no lock.
  static bool Read(const std::filesystem::path& dir, JournalState* state, std::string* error,
                   const OnDone& on_done = {});

  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // These may be called from any thread.
  void Start(int64_t item);
  void Entered(Phase phase, int64_t item);
  void Done(int64_t item, std::chrono::milliseconds elapsed, const CaseRecord& record);
  void Sighted(const Sighting& sighting);
  void More(const SightingKey& key, const std::string& recipe);
  void Stored(const SightingKey& key, const StoredFinding& kept);
  void Fault(const std::string& what);
  void Clock(std::chrono::milliseconds elapsed);

  // Returns why a line could not be written (a full disk); empty if all lines were. Nothing is written
  // after a failure.
  std::string Failure();

 private:
  explicit Journal(int descriptor) : descriptor_(descriptor) {}
  void Append(const Json& line);
  void Write(const std::string& text);  // under mutex_

  int descriptor_;
  std::mutex mutex_;
  KindNumbers kinds_;
  std::string failure_;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_JOURNAL_H_
