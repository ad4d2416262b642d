// SPDX-License-Identifier: Apache-2.0
//
// Hunts for one mutant: a blind campaign, without knowledge of the defect, ends with its first finding.
// The stored case is then replayed from its file and from its recipe's line alone. A mutant counts as
// killed only if all of that succeeds. If its defect is a race, replays have several attempts, and any
// finding counts.
//
// The campaign has one job, so that the case which kills is a function of seed and target.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/json.h"
#include "fuzz/campaign/options.h"
#include "fuzz/cases/bucket.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

struct Kill {
  std::string target;
  uint64_t seed = 0;
  ExitStatus campaign = ExitStatus::kClean;
  std::string trouble;  // why it does not count as killed; empty if it does
  std::string allowed;  // why it was rightly not found: the contract that it is held to allows it
  int64_t cases = 0;    // up to and with the first that failed; all if none did
  int64_t judged = 0;   // Tally::Judged of the campaign
  double seconds = 0;   // the campaign's duration
  Sighting sighting;    // none if its signature is empty
  Bucket bucket;        // the stored case's; empty if nothing was stored

  bool killed() const { return trouble.empty() && allowed.empty(); }
  bool found() const { return !sighting.signature.empty(); }
};

// `options`: of the campaign, with one target; jobs and stop_after are set here. `race`: the defect is
// one.
Kill Hunt(CampaignOptions options, bool race, const std::atomic<bool>& interrupt);

Json ToJson(const Kill& kill);

}  // namespace plumbline::fuzz
