// SPDX-License-Identifier: Apache-2.0
//
// A campaign: case after case on one or more targets, each in a worker process, until a budget ends.
// The supervisor (this code) never loads a target and never runs one.
//
// Case `index` on target number t is work item index * targets + t; its recipe is
// DrawRecipe(seed, index, regime), so which cases there are does not depend on jobs, on timing or on
// how often the campaign was interrupted.
//
// Files in `out`: journal.jsonl (fuzz/journal.h), findings/*.safetensors, faults/, logs/ (what workers
// print), shrinking/ (the best so far of what is being shrunk), summary.json.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/campaign_options.h"
#include "fuzz/exit_status.h"
#include "fuzz/sighting.h"
#include "fuzz/tally.h"
#include "fuzz/time_split.h"

namespace plumbline::fuzz {

struct Progress {
  std::chrono::milliseconds elapsed{0};  // over all runs
  std::vector<std::pair<std::string, Tally>> targets;
  int64_t findings = 0;
  std::vector<std::string> activity;  // "shrinking bound:logprob: 31840 -> 52 values"
};

// Told what happens. Calls come one at a time, from several threads.
class CampaignObserver {
 public:
  virtual ~CampaignObserver() = default;
  virtual void OnNote(const std::string&) {}
  // A sighting, before it is shrunk.
  virtual void OnSighting(const Sighting&, const std::string& /*why of the regime*/) {}
  // The same once it is stored: sighting.kept is there.
  virtual void OnStored(const Sighting&, const std::string& /*why of the regime*/) {}
  virtual void OnFault(const std::string& /*what*/, const std::filesystem::path& /*file*/) {}
  // About five times a second.
  virtual void OnProgress(const Progress&) {}
};

struct CampaignSummary {
  ExitStatus status = ExitStatus::kClean;
  std::string error;        // kUsage, kUnavailable, kFault, where the campaign could not go on
  CampaignOptions options;  // as they were used: after a resume, with what the journal says
  std::chrono::milliseconds elapsed{0};
  TimeSplit time;  // of this run alone
  std::vector<std::pair<std::string, Tally>> targets;
  std::vector<Sighting> sightings;  // in the order of their items
};

// Blocks until the budget ends or *interrupt becomes true.
CampaignSummary RunCampaign(CampaignOptions options, const std::atomic<bool>& interrupt,
                            CampaignObserver* observer);

// Why the campaign cannot be: an unknown regime, a recipe that does not parse, no target; empty if it
// can.
std::string Objection(const CampaignOptions& options);

// The one line that the user sees for a regime; "" where there is none of that name.
std::string WhyOf(std::string_view regime);

Json ToJson(const CampaignSummary& summary);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_H_
