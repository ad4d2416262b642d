// SPDX-License-Identifier: Apache-2.0
//
// The journal of a campaign is DIR/journal.jsonl, one JSON object a line. It is appended to and never
// rewritten.
//
//   {"journal":2,"plumb":"0.1.0","plan":2,"campaign":{...}}
//                                                          first line: what decides each case
//   {"phase":"search","item":ITEM}                         a phase's first item of this run
//   {"start":ITEM}                                         before a case
//   {"kind":K,"regime":R,"class":[NAME,AIM,DTYPE,GRADS]}   the meaning of K in the lines that follow
//   {"done":[ITEM,MS,US,K],"o":{...}}                      after a case: MS on the campaign's clock, US
//                                                          microseconds for it, and its CaseRecord
//                                                          (fuzz/campaign/search/record.h)
//   {"sighting":{...}}                                     a signature seen for the first time
//   {"more":{"target":T,"signature":S,"recipe":LINE}}      up to three further cases of it
//   {"stored":{"target":T,"signature":S,"kept":{...},"parts":{S:F}}}
//                                                          shrunk, confirmed, written; and of which
//                                                          finding F each S is a part from now on
//   {"fault":WHAT}                                         a fault of the harness, see faults/
//   {"clock":ELAPSED}                                      a run's end
//
// ITEM is index * targets + target, index as in fuzz/campaign/search/plan.h.
//
// An item is done when its "done" line is whole, and a sighting precedes the "done" of its case. A
// crash of the supervisor tears at most the last line (fuzz/base/json_lines.h). So a resumed campaign
// repeats unfinished cases, counts nothing twice, and pursues sightings that were not stored.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/json_lines.h"
#include "fuzz/campaign/finding_groups.h"
#include "fuzz/campaign/options.h"
#include "fuzz/campaign/reach.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/record.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

// The small numbers of kinds in "done" lines.
using KindNumbers = std::map<std::pair<std::string, CaseClass>, int64_t>;  // by regime and class

struct JournalState {
  CampaignOptions options;
  std::vector<bool> done;                // by item; absent: not done
  std::vector<int64_t> unfinished;       // started, not done
  std::map<std::string, Tally> tallies;  // by target
  std::map<std::string, Reach> reach;    // likewise
  Sightings sightings;
  int64_t faults = 0;
  std::chrono::milliseconds elapsed{0};
  KindNumbers kinds;
  std::string note;  // "the last line was torn and is dropped (53 bytes)"

  bool Done(int64_t item) const {
    return item < static_cast<int64_t>(done.size()) && done[static_cast<size_t>(item)];
  }
};

// An item that is done. `elapsed`: the campaign's clock.
struct DoneItem {
  int64_t item = 0;
  CaseRecord record;
  std::chrono::milliseconds elapsed{0};
};

// Reads a journal: its header first, then the items that are done, one by one.
class JournalReader {
 public:
  // Reads the header. Null, with the reason, if there is no journal in `dir` or none of this format.
  static std::unique_ptr<JournalReader> Open(const std::filesystem::path& dir, std::string* error);

  const CampaignOptions& options() const { return state_.options; }
  // Returns the plan (fuzz/campaign/search/plan.h) that its items are of.
  int64_t plan() const { return plan_; }
  // Reads on up to the next item that is done; each comes once. nullopt at the end, or with *error,
  // which names the line, if the journal is damaged anywhere but at its end.
  std::optional<DoneItem> Next(std::string* error);
  // Returns what all lines together say. Next has returned nullopt without an error.
  JournalState Finish();
  size_t whole() const { return lines_->whole(); }  // bytes up to the end of the last whole line

 private:
  explicit JournalReader(std::unique_ptr<JsonLinesReader> lines) : lines_(std::move(lines)) {}
  // These return false if the line is wrong; `why` says how.
  bool Header(const Json& line, std::string* why);
  bool Take(const Json& line, std::string* why);
  bool Start(const Json& line, std::string* why);
  bool Kind(const Json& line, std::string* why);
  bool Done(const Json& done, const Json& line, std::string* why);
  bool Sighted(const Json& line, std::string* why);
  bool More(const Json& line, std::string* why);
  bool Stored(const Json& line, std::string* why);
  bool Clock(int64_t ms);
  Sighting* Known(const Json& line, std::string* why);

  const std::unique_ptr<JsonLinesReader> lines_;
  JournalState state_;
  int64_t plan_ = 1;
  std::vector<std::pair<std::string, CaseClass>> kinds_;  // by number
  std::set<int64_t> started_;
  int64_t count_ = 0;              // items that are done
  std::optional<DoneItem> fresh_;  // the line that was read last, if it says that one is done
};

// Reads the whole journal in `dir`. nullopt, with the reason, if it is damaged.
std::optional<JournalState> ReadJournal(const std::filesystem::path& dir, std::string* error);

// Appends to a journal.
class Journal {
 public:
  // Returns why `dir` cannot hold a new campaign, if it holds one; else an empty text.
  static std::string Taken(const std::filesystem::path& dir);
  // Begins a new journal in the existing folder `dir`. Null, with the reason, if there is one already.
  static std::unique_ptr<Journal> Create(const std::filesystem::path& dir,
                                         const CampaignOptions& options, std::string* error);
  // Takes hold of the journal in `dir`. Null, with the reason, while another process holds it. It is to
  // be read, and then continued, before anything is appended.
  static std::unique_ptr<Journal> Open(const std::filesystem::path& dir, std::string* error);
  // Cuts a torn last line off. `read` has read the journal to its end, and `state` is what it says.
  bool Continue(const JournalReader& read, const JournalState& state, std::string* error);

  // These may be called from any thread.
  void Start(int64_t item);
  void Entered(Phase phase, int64_t item);
  void Done(int64_t item, std::chrono::milliseconds elapsed, const CaseRecord& record);
  void Sighted(const Sighting& sighting);
  void More(const SightingKey& key, const std::string& recipe);
  void Stored(const SightingKey& key, const StoredFinding& kept, const Parts& parts);
  void Fault(const std::string& what);
  void Clock(std::chrono::milliseconds elapsed);

  // Returns why a line could not be written (a full disk); empty if all lines were. Nothing is written
  // after a failure.
  std::string Failure() { return file_->Failure(); }

 private:
  explicit Journal(std::unique_ptr<JsonLinesWriter> file) : file_(std::move(file)) {}

  const std::unique_ptr<JsonLinesWriter> file_;
  std::mutex mutex_;  // guards kinds_, and keeps a kind before its first use
  KindNumbers kinds_;
};

}  // namespace plumbline::fuzz
