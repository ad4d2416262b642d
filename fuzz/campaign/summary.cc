// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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
    std::string names;
    for (const Regime& regime : Regimes())
      names += (names.empty() ? "" : ", ") + std::string(regime.name);
    return "regime '" + options.regime + "' is unknown; there are " + names;
  }
  Recipe recipe;
  std::string error;
  if (!options.recipe.empty() && !Parse(options.recipe, &recipe, &error, options.MaxElements())) {
    return "recipe: " + error;
  }
  return options.production && !options.recipe.empty() ? WhyNotOnDevice(recipe) : "";
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
                           {"status", static_cast<int>(summary.status)},
                           {"out", summary.options.out.string()},
                           {"campaign", ToJson(summary.options)},
                           {"elapsed_seconds", std::chrono::duration<double>(summary.elapsed).count()},
                           {"time", ToJson(summary.time)},
                           {"targets", Json::Array{}},
                           {"findings", static_cast<int64_t>(summary.sightings.size())},
                           {"sightings", Json::Array{}}};
  if (!summary.error.empty()) json["error"] = summary.error;
  int64_t cases = 0;
  for (size_t t = 0; t < summary.targets.size(); ++t) {
    const auto& [target, tally] = summary.targets[t];
    Json entry = ToJson(tally);
    entry["target"] = target;
    // These stand beside the totals and not in them, because they contain times.
    if (t < summary.coverage.size()) json["coverage"][target] = ToJson(summary.coverage[t]);
    if (t < summary.yields.size()) {
      json["yield"][target] = ToJson(summary.yields[t], FindingsOf(summary, target));
    }
    json["targets"].Append(std::move(entry));
    cases += tally.cases;
  }
  json["cases"] = cases;
  for (const Sighting& sighting : summary.sightings) json["sightings"].Append(ToJson(sighting));
  return json;
}

}  // namespace plumbline::fuzz
