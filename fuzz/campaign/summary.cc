// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/nearest.h"
#include "fuzz/base/text.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {

std::string Objection(const CampaignOptions& options) {
  if (options.targets.empty()) return "no target is given";
  for (size_t i = 0; i < options.targets.size(); ++i) {
    if (std::count(options.targets.begin(), options.targets.end(), options.targets[i]) > 1) {
      return "target " + options.targets[i] + " is given twice";
    }
  }
  if (!options.regime.empty() && WhyOf(options.regime).empty()) {
    std::vector<std::string> names;
    for (const Regime& regime : Regimes()) names.emplace_back(regime.name);
    return "there is no regime '" + Printable(Abridged(options.regime)) + "'." +
           DidYouMean(options.regime, names) + " fuzz/recipe/REGIMES.md lists all " +
           std::to_string(names.size()) + ", --verbose those that a campaign drew.";
  }
  Recipe recipe;
  std::string error;
  if (!options.recipe.empty() && !Parse(options.recipe, &recipe, &error, options.MaxElements())) {
    return "recipe: " + error;
  }
  return options.production && !options.recipe.empty() ? WhyNotOnDevice(recipe) : "";
}

std::vector<std::string> NotAccepted(const CampaignSummary& summary, const RankedFinding& finding) {
  std::vector<std::string> signatures = finding.parts;
  signatures.insert(signatures.begin(), finding.sighting.signature);
  std::erase_if(signatures, [&](const std::string& signature) {
    return summary.accepted.contains({finding.sighting.target, signature});
  });
  return signatures;
}

int64_t CountNotAccepted(const CampaignSummary& summary) {
  return std::ranges::count_if(summary.ranking, [&](const RankedFinding& finding) {
    return !NotAccepted(summary, finding).empty();
  });
}

std::vector<size_t> NoLongerSeen(const CampaignSummary& summary) {
  std::vector<size_t> unseen;
  if (Planted(HarnessDefect::kFixedIsKept)) return unseen;
  const CampaignOptions& options = summary.options;
  for (size_t i = 0; i < options.known.size(); ++i) {
    const bool concerns = std::ranges::any_of(
        options.targets, [&](const std::string& target) { return options.known[i].Concerns(target); });
    const bool seen = std::ranges::any_of(summary.accepted,
                                          [i](const auto& accepted) { return accepted.second == i; });
    if (concerns && !seen) unseen.push_back(i);
  }
  return unseen;
}

std::map<std::string, int64_t> FindingsOf(const CampaignSummary& summary, const std::string& target) {
  std::map<std::string, int64_t> findings;
  for (const Sighting& sighting : summary.sightings) {
    if (sighting.target == target) ++findings[sighting.regime];
  }
  return findings;
}

Json ToJson(const CoverageReport& report) {
  return Json::Object{{"cells", report.cells},
                      {"cases", report.cases},
                      {"blind", report.blind},
                      {"cases_since_new", report.cases_since_new},
                      {"newest_seconds", std::chrono::duration<double>(report.newest).count()},
                      {"chance_of_new", report.chance.estimate},
                      {"chance_of_new_at_most", report.chance.at_most},
                      {"pairs", report.pairs},
                      {"pairs_judged", report.pairs_judged},
                      {"triples", report.triples},
                      {"triples_judged", report.triples_judged}};
}

Json ToJson(const CampaignSummary& summary) {
  Json json = Json::Object{{"verdict", Name(summary.status)},
                           {"status", ProcessStatus(summary.status)},
                           {"out", summary.options.out.string()},
                           {"campaign", ToJson(summary.options)},
                           {"elapsed_seconds", std::chrono::duration<double>(summary.elapsed).count()},
                           {"time", ToJson(summary.time)},
                           {"targets", Json::Array{}},
                           {"findings", CountNotAccepted(summary)},
                           {"sightings", Json::Array{}}};
  if (!summary.error.empty()) json["error"] = summary.error;
  int64_t cases = 0, judged = 0;
  for (size_t t = 0; t < summary.targets.size(); ++t) {
    const auto& [target, tally] = summary.targets[t];
    Json entry = ToJson(tally);
    entry["target"] = target;
    if (t < summary.not_shown.size() && !summary.not_shown[t].empty()) {
      entry["not_shown"] = Json::Array(summary.not_shown[t].begin(), summary.not_shown[t].end());
    }
    // These stand beside the totals and not in them, because they contain times.
    if (t < summary.coverage.size()) json["coverage"][target] = ToJson(summary.coverage[t]);
    if (t < summary.yields.size()) {
      json["yield"][target] = ToJson(summary.yields[t], FindingsOf(summary, target));
    }
    json["targets"].Append(std::move(entry));
    cases += tally.cases;
    judged += tally.Judged();
  }
  json["cases"] = cases;
  json["judged"] = judged;
  for (const auto* list : {&summary.sightings, &summary.parts}) {
    for (const Sighting& sighting : *list) {
      Json& entry = json[list == &summary.parts ? "parts" : "sightings"].Append(ToJson(sighting));
      const auto accepted = summary.accepted.find({sighting.target, sighting.signature});
      if (accepted != summary.accepted.end())
        entry["known"] = ToJson(summary.options.known[accepted->second]);
    }
  }
  for (const RankedFinding& finding : summary.ranking) json["ranking"].Append(ToJson(finding));
  for (const std::string& file : summary.wrong_slips) json["wrong_slips"].Append(file);
  for (const std::string& file : summary.suspect_slips) json["suspect_slips"].Append(file);
  for (const std::string& line : summary.unreadable) json["unreadable"].Append(line);
  return json;
}

}  // namespace plumbline::fuzz
