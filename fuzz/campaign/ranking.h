// SPDX-License-Identifier: Apache-2.0
//
// The order in which reports name the findings of a campaign: by severity, then by reach.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/campaign/reach.h"
#include "fuzz/triage/severity.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

struct RankedFinding {
  Sighting sighting;
  Severity severity = Severity::kWrong;  // the gravest of its signatures
  ReachShare reach;                      // the widest of its signatures
  std::vector<std::string> parts;        // its other signatures, sorted
  // Finding::shortcut of its first signature that has one: of one case, where others may be too small
  // to tell roundings apart.
  std::string shortcut;
};

// `reaches`: by target.
std::vector<RankedFinding> RankFindings(const std::vector<Sighting>& findings,
                                        const std::vector<Sighting>& parts,
                                        const std::map<std::string, Reach>& reaches);

// The finding's target, signature, parts, severity and reach.
Json ToJson(const RankedFinding& finding);

// Returns "wrong, in 12 of 80 judged cases that could show it (15 %)".
std::string Describe(const RankedFinding& finding);

}  // namespace plumbline::fuzz
