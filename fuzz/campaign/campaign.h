// SPDX-License-Identifier: Apache-2.0
//
// A campaign runs one case after another on one or more targets, each in a worker process, until a
// budget ends. The supervisor (this code) never loads a target and never runs one.
//
// Case `index` on target number t is work item index * targets + t. fuzz/campaign/search/plan.h and
// fuzz/campaign/search/search.h choose the case: it depends on the options and on the results of
// earlier cases, never on jobs, on timing or on how often the campaign was interrupted.
//
// Resources are bounded: fuzz/campaign/journal.h says what a case takes on the disk; in memory it takes
// a bit. Logs, findings and the search's state have their own limits, and a campaign ends when less
// than CampaignOptions::least_free bytes are free.
//
// A campaign is pulled: its threads judge cases, and whoever began it asks what happened.
//
// `out` holds journal.jsonl (fuzz/campaign/journal.h), findings/*.safetensors, faults/, logs/ (what
// workers print), shrinking/ (the best so far of each problem that is being shrunk), summary.json.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/campaign/first_call.h"
#include "fuzz/campaign/options.h"
#include "fuzz/campaign/progress.h"
#include "fuzz/campaign/ranking.h"
#include "fuzz/campaign/search/assurance.h"
#include "fuzz/campaign/search/regime_yield.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/campaign/time_split.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

class CampaignState;
class Journal;
class Plan;
class Search;
class WorkerPool;
struct JournalState;

// The estimate of the part that a campaign has not seen of one target.
struct CoverageReport {
  int64_t cells = 0, cases = 0, blind = 0;  // cases: judged or vacuous; blind: those of the blind draws
  int64_t cases_since_new = 0;
  std::chrono::milliseconds newest{0};  // the campaign's clock at the last new cell
  NewCellChance chance;
  // Pairs and triples of levels of the covering design, and those that a judged case of it had.
  int64_t pairs = 0, pairs_judged = 0, triples = 0, triples_judged = 0;
};

struct CampaignSummary {
  ExitStatus status = ExitStatus::kClean;
  std::string error;        // set with kUsage, kUnavailable and kFault
  CampaignOptions options;  // as they were used; after a resume, with those of the journal
  std::chrono::milliseconds elapsed{0};
  TimeSplit time;  // this run's alone
  std::vector<std::pair<std::string, Tally>> targets;
  // By target, as `targets`: what it may do without a verdict (fuzz/target/contracts.h, NotShown);
  // empty of a target that declares its contract in full.
  std::vector<std::vector<std::string>> not_shown;
  std::vector<Sighting> sightings;  // the findings, in the order of their items
  std::vector<Sighting> parts;      // the sightings that are parts of one of them, likewise
  std::vector<RankedFinding> ranking;
  // The findings and parts that are accepted, each with the index of its entry in options.known.
  std::map<SightingKey, size_t> accepted;
  // Where nothing wrong was found that is not accepted: stored cases that are wrong, or at least
  // suspect, and were seen while another finding was shrunk.
  std::vector<std::string> wrong_slips, suspect_slips;
  std::vector<std::string> unreadable;   // files of the corpus, "PATH: why"
  std::vector<CoverageReport> coverage;  // by target, as `targets`
  std::vector<RegimeYields> yields;
};

class Campaign {
 public:
  // Begins a campaign, or resumes the one in options.out. If that is impossible, it ends at once, and
  // Finish says why. It also ends when `interrupt` becomes true, which must outlive it.
  Campaign(CampaignOptions options, const std::atomic<bool>& interrupt);
  ~Campaign();
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  // Waits for events, for `patience` at most, and hands them over in their order. Returns false at the
  // end. It is to be called until then: it also watches the disk.
  bool Next(std::chrono::milliseconds patience, std::vector<CampaignEvent>* events);
  // Next has returned true and no event.
  Progress GetProgress();
  // Ends the journal and writes summary.json. Next has returned false.
  CampaignSummary Finish();
  // As they are used: after a resume, with those of the journal.
  const CampaignOptions& options() const { return options_; }

 private:
  // These return false after a refusal.
  bool Begin(std::unique_ptr<Journal>* journal);
  bool Resume(JournalState* state, std::unique_ptr<Journal>* journal);
  bool MakePlan();
  bool MakeSearch();
  bool Prepare();
  void ChoosePalette(const FirstCall& first_call);
  bool Refuse(ExitStatus status, const std::string& error);

  CampaignOptions options_;
  const std::atomic<bool>& interrupt_;
  ExitStatus status_ = ExitStatus::kClean;
  std::string error_;
  std::vector<CampaignEvent> events_;  // those of the resume
  std::vector<std::vector<std::string>> not_shown_;
  std::vector<std::string> unreadable_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Search> search_;
  std::unique_ptr<CampaignState> state_;
  std::unique_ptr<WorkerPool> pool_;
};

// Runs a campaign to its end.
CampaignSummary RunCampaign(CampaignOptions options, const std::atomic<bool>& interrupt);

// Returns why the campaign is impossible: an unknown regime, a recipe that does not parse, no target.
// Empty if it is possible.
std::string Objection(const CampaignOptions& options);

// Returns the signatures of a finding, its own and its parts', that no entry of options.known accepts.
std::vector<std::string> NotAccepted(const CampaignSummary& summary, const RankedFinding& finding);
// Returns the number of findings that are not accepted, with all their parts.
int64_t CountNotAccepted(const CampaignSummary& summary);
// Returns the entries of options.known that concern a target of the campaign and accept nothing that it
// found, as indices.
std::vector<size_t> NoLongerSeen(const CampaignSummary& summary);

// Returns the number of a target's sightings by regime.
std::map<std::string, int64_t> FindingsOf(const CampaignSummary& summary, const std::string& target);

Json ToJson(const CoverageReport& report);
Json ToJson(const CampaignSummary& summary);

}  // namespace plumbline::fuzz
