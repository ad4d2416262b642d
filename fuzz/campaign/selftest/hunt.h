// SPDX-License-Identifier: Apache-2.0
//
// The hunt for one mutant: a blind campaign, which knows nothing of the defect, ends with its first
// finding; what was stored is then replayed from its file and from its recipe's line alone. A mutant
// counts as killed only if all of that holds. Where its defect is a race, replays have several
// attempts, and any finding will do.
//
// The campaign has one job, so that the case which kills is a function of seed and target.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_SELFTEST_HUNT_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_SELFTEST_HUNT_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/json.h"
#include "fuzz/campaign/options.h"
#include "fuzz/cases/bucket.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

struct HuntSpec {
  std::string target;
  uint64_t seed = 1;
  Budget budget;
  bool race = false;
  std::filesystem::path out;  // the campaign's folder
  std::filesystem::path program = "/proc/self/exe";
};

struct Kill {
  std::string target;
  uint64_t seed = 0;
  ExitStatus campaign = ExitStatus::kClean;
  std::string trouble;  // why it does not count as killed; empty if it does
  int64_t cases = 0;    // until the first that failed, it included; all of them where none did
  double seconds = 0;   // how long the campaign had run
  Sighting sighting;    // signature empty: there is none
  Bucket bucket;        // the stored case's; empty where nothing was stored

  bool killed() const { return trouble.empty(); }
  bool found() const { return !sighting.signature.empty(); }
};

Kill Hunt(const HuntSpec& spec, const std::atomic<bool>& interrupt);

Json ToJson(const Kill& kill);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_SELFTEST_HUNT_H_
