// SPDX-License-Identifier: Apache-2.0
//
// What a running campaign tells: events, in their order, and its progress when it is asked.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/units.h"
#include "fuzz/campaign/ranking.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

struct CampaignEvent {
  enum class Kind : uint8_t {
    kNote,      // text
    kSighting,  // sighting, the leader of what is new in a case, before it is shrunk
    kStored,  // sighting, shrunk and stored: sighting.kept is set. It may have joined another finding:
              // then sighting.part_of is set. `finding` is the one that it is, or is a part of.
    kFault,   // a fault of the harness: text, and the file with its witness
  };
  Kind kind = Kind::kNote;
  std::string text{};
  Sighting sighting{};
  RankedFinding finding{};
  std::filesystem::path file{};
};

// How many findings there are, by severity. Parts of others do not count.
struct FindingCounts {
  int64_t wrong = 0, suspect = 0;
};

struct Progress {
  Phase phase = Phase::kSearch;
  std::chrono::milliseconds elapsed{0};  // over all runs
  Budget budget;
  std::vector<std::pair<std::string, Tally>> targets;
  int64_t cases_before = 0;  // judged in earlier runs
  double in_this_run = 0;    // seconds
  FindingCounts findings;
  int64_t cells = 0;                    // all targets together
  std::chrono::milliseconds newest{0};  // when the last new one was seen
  std::vector<std::string> activity;    // "shrinking bound:logprob: 31840 -> 52 values"
};

}  // namespace plumbline::fuzz
