// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/finding_groups.h"

#include <algorithm>
#include <set>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/triage/same_cause.h"
#include "fuzz/triage/severity.h"

namespace plumbline::fuzz {
namespace {

// Returns the signature without the mark of what was not seen again.
std::string Plain(std::string signature) {
  if (signature.ends_with(kOnce)) signature.resize(signature.size() - kOnce.size());
  return signature;
}

}  // namespace

void Group(std::vector<Sighting>* fresh) {
  std::ranges::sort(*fresh, Leads);
  for (size_t i = 1; i < fresh->size(); ++i) (*fresh)[i].part_of = fresh->front().signature;
}

const Sighting& FindingOf(const Sightings& sightings, const Sighting& sighting) {
  const Sighting* at = &sighting;
  // A journal that was tampered with may hold a circle.
  for (size_t steps = 0; !at->part_of.empty() && steps < sightings.size(); ++steps) {
    const auto next = sightings.find({at->target, at->part_of});
    if (next == sightings.end()) break;
    at = &next->second;
  }
  return *at;
}

Parts TakeApart(const Sightings& sightings, const Sighting& stored) {
  Parts parts;
  if (!stored.kept || !stored.reproduced || Planted(HarnessDefect::kCompanionIsOutput)) return parts;
  std::vector<Sighting> loose;
  for (const auto& [key, sighting] : sightings) {
    if (sighting.target != stored.target || sighting.part_of != stored.signature || sighting.kept)
      continue;
    if (std::ranges::find(stored.kept->cause.also, Plain(sighting.signature)) ==
        stored.kept->cause.also.end()) {
      loose.push_back(sighting);
      loose.back().part_of.clear();
    }
  }
  Group(&loose);
  for (const Sighting& sighting : loose) parts[sighting.signature] = sighting.part_of;
  return parts;
}

Parts Join(const Sightings& sightings, const Sighting& stored) {
  Parts parts;
  if (!stored.kept) return parts;
  const Sighting* const own = &FindingOf(sightings, stored);
  std::set<const Sighting*> same = {own};
  std::vector<const Sighting*> loose;  // parts of other findings, which may be one of this
  for (const auto& [key, other] : sightings) {
    const bool candidate =
        other.target == stored.target && other.kept && key.second != stored.signature;
    if (!candidate || !SameCause(other, stored)) continue;
    // The parts of a finding that were shrunk speak for it as well.
    const Sighting* const finding = &FindingOf(sightings, other);
    if (IsShrunk(other) || finding == &other) {
      same.insert(finding);
    } else {
      loose.push_back(&other);
    }
  }
  // Not by which was stored first: where two jobs meet their cases in another order, that differs.
  const Sighting* leader =
      *std::ranges::min_element(same, [](const Sighting* a, const Sighting* b) { return Leads(*a, *b); });
  for (const Sighting* each : same) {
    // A finding that was not shrunk moves alone: those that it may be one with are not one with each
    // other.
    const bool moves = IsShrunk(stored) || each == own || !(IsShrunk(*each) || IsShrunk(*leader));
    if (each != leader && moves) parts[each->signature] = leader->signature;
  }
  for (const Sighting* each : loose) {
    const Sighting& finding = FindingOf(sightings, *each);
    if (!same.contains(&finding) && Leads(*leader, finding)) parts[each->signature] = leader->signature;
  }
  return parts;
}

void Apply(const Parts& parts, const std::string& target, Sightings* sightings) {
  for (const auto& [signature, part_of] : parts) {
    const auto sighting = sightings->find({target, signature});
    if (sighting != sightings->end()) sighting->second.part_of = part_of;
  }
}

}  // namespace plumbline::fuzz
