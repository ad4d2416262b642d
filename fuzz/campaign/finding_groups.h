// SPDX-License-Identifier: Apache-2.0
//
// One cause, one finding. What is new in one case is one finding, led by its gravest signature
// (fuzz/triage/severity.h), and only the leader is shrunk. Once it is stored, the signatures that its
// problem shows are its parts; those that it does not show are a finding of their own, led and shrunk
// in the same way. A later finding that has the cause of a stored one (fuzz/triage/same_cause.h) becomes
// one with it, and the two are led as if one case had shown both.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

using Sightings = std::map<SightingKey, Sighting>;
// Changes of Sighting::part_of of one target: by signature.
using Parts = std::map<std::string, std::string>;

// Groups what is new in one case, `once` as in Judged: the first is the leader.
void Group(std::vector<Sighting>* fresh);

// Returns the finding that a sighting is a part of, itself if it is one.
const Sighting& FindingOf(const Sightings& sightings, const Sighting& sighting);

// `stored` was stored. Returns the changes of a group of its own for the parts that its problem does
// not show; empty if there is none.
Parts TakeApart(const Sightings& sightings, const Sighting& stored);

// Returns the changes by which `stored` and the stored findings of the same cause become one.
Parts Join(const Sightings& sightings, const Sighting& stored);

void Apply(const Parts& parts, const std::string& target, Sightings* sightings);

}  // namespace plumbline::fuzz
