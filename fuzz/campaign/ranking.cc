// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/ranking.h"

#include <algorithm>
#include <cinttypes>
#include <tuple>

#include "fuzz/base/text.h"
#include "fuzz/campaign/finding_groups.h"

namespace plumbline::fuzz {

namespace {

// What is shown of it: the shrunk finding, which may be graver than the first one.
const Finding& Shown(const Sighting& sighting) {
  return sighting.kept ? sighting.kept->finding : sighting.finding;
}

// A rounding explains values, and neither a NaN nor anything else.
bool IsOfValues(const Sighting& sighting) {
  const FindingKind kind = Shown(sighting).kind;
  return kind == FindingKind::kBound || kind == FindingKind::kMagnitude;
}

std::string ShortcutOf(const Sighting& sighting) {
  if (!IsOfValues(sighting)) return {};
  const std::string& own = Shown(sighting).shortcut;
  return own.empty() ? sighting.finding.shortcut : own;
}

}  // namespace

std::vector<RankedFinding> RankFindings(const std::vector<Sighting>& findings,
                                        const std::vector<Sighting>& parts,
                                        const std::map<std::string, Reach>& reaches) {
  Sightings all;
  for (const std::vector<Sighting>& some : {findings, parts}) {
    for (const Sighting& sighting : some) all[{sighting.target, sighting.signature}] = sighting;
  }
  std::vector<RankedFinding> ranking;
  for (const Sighting& finding : findings) {
    RankedFinding ranked{.sighting = finding,
                         .severity = SeverityOf(finding.finding),
                         .reach = {},
                         .parts = {},
                         .shortcut = ShortcutOf(finding)};
    const bool of_values = IsOfValues(finding);
    const auto reach = reaches.find(finding.target);
    const auto widen = [&](const std::string& signature) {
      const ReachShare share = reach != reaches.end() ? reach->second.Of(signature) : ReachShare{};
      if (share.Share() > ranked.reach.Share() || ranked.reach.of == 0) ranked.reach = share;
    };
    widen(finding.signature);
    for (const Sighting& part : parts) {
      const Sighting& whole = FindingOf(all, part);
      if (whole.target != finding.target || whole.signature != finding.signature) continue;
      ranked.parts.push_back(part.signature);
      ranked.severity = std::min(ranked.severity, SeverityOf(part.finding));
      widen(part.signature);
      if (of_values && ranked.shortcut.empty()) ranked.shortcut = ShortcutOf(part);
    }
    std::ranges::sort(ranked.parts);
    ranking.push_back(std::move(ranked));
  }
  std::ranges::stable_sort(ranking, [](const RankedFinding& a, const RankedFinding& b) {
    return std::tuple(a.severity, -a.reach.Share()) < std::tuple(b.severity, -b.reach.Share());
  });
  return ranking;
}

Json ToJson(const RankedFinding& finding) {
  return Json::Object{{"target", finding.sighting.target},
                      {"signature", finding.sighting.signature},
                      {"parts", Json::Array(finding.parts.begin(), finding.parts.end())},
                      {"severity", Name(finding.severity)},
                      {"shortcut", finding.shortcut},
                      {"showed", finding.reach.showed},
                      {"could_show", finding.reach.of}};
}

std::string Describe(const RankedFinding& finding) {
  return std::string(Name(finding.severity)) +
         Text(", in %" PRId64 " of %" PRId64 " judged cases that could show it (%.3g %%)",
              finding.reach.showed, finding.reach.of, 100 * finding.reach.Share());
}

}  // namespace plumbline::fuzz
