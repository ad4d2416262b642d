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
// `out` holds journal.jsonl (fuzz/campaign/journal.h), findings/*.safetensors, faults/, logs/ (what
// workers print), shrinking/ (the best so far of each problem that is being shrunk), summary.json.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_CAMPAIGN_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_CAMPAIGN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/campaign/options.h"
#include "fuzz/campaign/search/assurance.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/regime_yield.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/campaign/time_split.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

struct Progress {
  Phase phase = Phase::kSearch;
  std::chrono::milliseconds elapsed{0};  // over all runs
  Budget budget;
  std::vector<std::pair<std::string, Tally>> targets;
  int64_t cases_before = 0;  // judged in earlier runs
  double in_this_run = 0;    // seconds
  int64_t findings = 0;
  int64_t cells = 0;                    // all targets together
  std::chrono::milliseconds newest{0};  // when the last new one was seen
  std::vector<std::string> activity;    // "shrinking bound:logprob: 31840 -> 52 values"
};

// Receives the events of a campaign. Calls come one at a time, from several threads.
class CampaignObserver {
 public:
  virtual ~CampaignObserver() = default;
  virtual void OnNote(const std::string&) {}
  // Called for a sighting, before it is shrunk.
  virtual void OnSighting(const Sighting&, const std::string& /*why of the regime*/) {}
  // Called when it is stored: sighting.kept is set.
  virtual void OnStored(const Sighting&, const std::string& /*why of the regime*/) {}
  virtual void OnFault(const std::string& /*what*/, const std::filesystem::path& /*file*/) {}
  // Called about five times a second.
  virtual void OnProgress(const Progress&) {}
};

// The estimate of the part that a campaign has not seen of one target.
struct CoverageReport {
  int64_t cells = 0, cases = 0, blind = 0;  // cases: judged or vacuous; blind: those of the blind draws
  int64_t cases_since_new = 0;
  std::chrono::milliseconds newest{0};  // the campaign's clock at the last new cell
  NewCellChance chance;
};

struct CampaignSummary {
  ExitStatus status = ExitStatus::kClean;
  std::string error;        // set with kUsage, kUnavailable and kFault
  CampaignOptions options;  // as they were used; after a resume, with those of the journal
  std::chrono::milliseconds elapsed{0};
  TimeSplit time;  // this run's alone
  std::vector<std::pair<std::string, Tally>> targets;
  std::vector<Sighting> sightings;       // in the order of their items
  std::vector<CoverageReport> coverage;  // by target, as `targets`
  std::vector<RegimeYields> yields;
};

// Runs until the budget ends or *interrupt becomes true.
CampaignSummary RunCampaign(CampaignOptions options, const std::atomic<bool>& interrupt,
                            CampaignObserver* observer);

// Returns why the campaign is impossible: an unknown regime, a recipe that does not parse, no target.
// Empty if it is possible.
std::string Objection(const CampaignOptions& options);

// Returns the one line that the user sees for a regime; "" if there is none of that name.
std::string WhyOf(std::string_view regime);

// Returns the number of a target's sightings by regime.
std::map<std::string, int64_t> FindingsOf(const CampaignSummary& summary, const std::string& target);

Json ToJson(const CoverageReport& report);
Json ToJson(const CampaignSummary& summary);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_CAMPAIGN_H_
