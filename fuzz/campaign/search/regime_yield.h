// SPDX-License-Identifier: Apache-2.0
//
// The yield of each regime on one target: cases and seconds spent, cells and findings gained.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fuzz/base/json.h"
#include "fuzz/campaign/search/record.h"

namespace plumbline::fuzz {

struct RegimeYield {
  int64_t cases = 0;
  double seconds = 0;      // workers' time, without the arbiter and shrinking
  int64_t fail = 0;        // cases
  int64_t new_cells = 0;   // fuzz/campaign/search/features.h
  double tightness = 0;    // the largest of any output
  int64_t blind = 0;       // judged cases that do not depend on earlier results,
  int64_t blind_fail = 0;  // and those of them that failed
};

using RegimeYields = std::map<std::string, RegimeYield>;  // by regime

void AddTo(RegimeYields* yields, const CaseRecord& record, bool blind, int64_t new_cells);

// `findings`: sightings by regime. If no blind case failed, "fails_below" holds the rule of three
// (fuzz/campaign/search/assurance.h).
Json ToJson(const RegimeYields& yields, const std::map<std::string, int64_t>& findings);

}  // namespace plumbline::fuzz
