// SPDX-License-Identifier: Apache-2.0
//
// A sighting is the first case of a campaign in which a target showed a signature, and the result of
// its pursuit. (target, signature) is its key: later cases with the same key are counted, not pursued.
// A sighting is a finding, or a part of one: what fails together in a case and goes away together when
// it shrinks is one finding (fuzz/campaign/finding_groups.h).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/examine/result.h"
#include "fuzz/triage/cause.h"

namespace plumbline::fuzz {

// A sighting that was shrunk, confirmed and written to a file.
struct StoredFinding {
  std::string file;  // relative to the campaign's folder
  Finding finding;   // on the stored problem, the arbiter asked
  int64_t values_before = 0, values_after = 0;
  int64_t tried = 0, accepted = 0;
  bool complete = false;  // shrinking ended at a fixpoint, not at a limit
  double seconds = 0;     // spent shrinking
  std::string note;       // why it is stored unshrunk; else empty
  // What the explanation found, if there is one (`extra.explain` of the file).
  std::vector<std::string> explain;
  Cause cause;
};

struct Sighting {
  std::string target;
  std::string signature;  // Finding::Signature(), with kOnce if it was not seen again on the same case
  int64_t item = 0;       // work item of the campaign
  std::string recipe;
  std::string source;  // the case file instead, for a case of the corpus
  std::string regime;
  double seconds = 0;  // on the campaign's clock
  Finding finding;
  bool reproduced = true;
  // The signature of the finding that this is a part of, on the same target; empty: it is one itself.
  std::string part_of;
  std::vector<std::string> more;      // recipes of up to kMoreRecipes later cases that showed it
  std::optional<StoredFinding> kept;  // absent: not stored yet
};

// True if it was shrunk far enough for rules of its extents.
inline bool IsShrunk(const Sighting& sighting) {
  return sighting.kept && !sighting.kept->cause.rules.empty();
}

// A sighting's key: (target, signature).
using SightingKey = std::pair<std::string, std::string>;

inline constexpr size_t kMoreRecipes = 3;
inline constexpr std::string_view kOnce = " (once)";

void Fields(FieldVisitor& io, StoredFinding& kept);
void Fields(FieldVisitor& io, Sighting& sighting);

}  // namespace plumbline::fuzz
