// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuzz/campaign/campaign.h"
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
  if (!options.recipe.empty() && !Parse(options.recipe, &recipe, &error)) return "recipe: " + error;
  return {};
}

std::string WhyOf(std::string_view name) {
  if (name == kCorpusRegime) return "a case that was kept";
  for (const Regime& regime : Regimes()) {
    if (regime.name == name) return std::string(regime.why);
  }
  return {};
}

std::map<std::string, int64_t> FindingsOf(const CampaignSummary& summary, const std::string& target) {
  std::map<std::string, int64_t> findings;
  for (const Sighting& sighting : summary.sightings) {
    if (sighting.target == target) ++findings[sighting.regime];
  }
  return findings;
}

Json ToJson(const CoverageReport& report) {
  Json json;
  json["cells"] = report.cells;
  json["cases"] = report.cases;
  json["blind"] = report.blind;
  json["cases_since_new"] = report.cases_since_new;
  json["newest_seconds"] = std::chrono::duration<double>(report.newest).count();
  json["chance_of_new"] = report.chance.estimate;
  json["chance_of_new_at_most"] = report.chance.at_most;
  return json;
}

Json ToJson(const CampaignSummary& summary) {
  Json json;
  json["verdict"] = Name(summary.status);
  json["status"] = static_cast<int>(summary.status);
  if (!summary.error.empty()) json["error"] = summary.error;
  json["out"] = summary.options.out.string();
  json["campaign"] = ToJson(summary.options);
  json["elapsed_seconds"] = std::chrono::duration<double>(summary.elapsed).count();
  json["time"] = ToJson(summary.time);
  int64_t cases = 0;
  json["targets"] = Json(Json::Array{});
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
  json["findings"] = static_cast<int64_t>(summary.sightings.size());
  json["sightings"] = Json(Json::Array{});
  for (const Sighting& sighting : summary.sightings) json["sightings"].Append(ToJson(sighting));
  return json;
}

}  // namespace plumbline::fuzz
