// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/selftest/kill_statistics.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

double PercentileOr0(const std::vector<double>& values, int percent) {
  return values.empty() ? 0 : Percentile(values, percent);
}

// The samples of the statistics, from the hunts for one mutant or for all of them.
struct Samples {
  std::vector<double> cases, values, shrinking;

  void Add(const Kill& kill) {
    cases.push_back(static_cast<double>(kill.cases));
    if (!kill.sighting.kept) return;
    values.push_back(static_cast<double>(kill.sighting.kept->values_after));
    shrinking.push_back(kill.sighting.kept->seconds);
  }
};

std::string MostFrequent(const std::map<std::string, int64_t>& counts) {
  std::string text;
  int64_t most = 0;
  for (const auto& [name, count] : counts) {
    if (count <= most) continue;
    text = name;
    most = count;
  }
  if (counts.size() > 1) text += Text(" +%zu", counts.size() - 1);
  return text;
}

Json ToJson(const std::map<std::string, int64_t>& counts) {
  Json json(Json::Object{});
  for (const auto& [name, count] : counts) json[name] = count;
  return json;
}

}  // namespace

double Percentile(std::vector<double> values, int percent) {
  std::sort(values.begin(), values.end());
  const size_t rank = (values.size() * static_cast<size_t>(percent) + 99) / 100;
  return values[std::max<size_t>(rank, 1) - 1];
}

double KillStatistics::Purity() const {
  if (buckets == 0) return 1;
  return 1 - static_cast<double>(shared.size()) / static_cast<double>(buckets);
}

KillStatistics Summarise(const std::vector<Kill>& kills) {
  KillStatistics all;
  Samples samples;
  std::vector<Samples> of_mutant;
  std::map<std::string, SharedBucket> buckets;  // by id
  for (const Kill& kill : kills) {
    auto mutant = std::find_if(all.mutants.begin(), all.mutants.end(),
                               [&](const MutantStatistics& m) { return m.target == kill.target; });
    if (mutant == all.mutants.end()) {
      all.mutants.emplace_back().target = kill.target;
      of_mutant.emplace_back();
      mutant = all.mutants.end() - 1;
    }
    // A mutant that was not killed ranks after every one that was, whatever it had tried.
    Kill counted = kill;
    for (const Kill& other : kills) {
      if (!kill.killed()) counted.cases = std::max(counted.cases, other.cases);
    }
    of_mutant[static_cast<size_t>(mutant - all.mutants.begin())].Add(counted);
    samples.Add(counted);
    ++mutant->hunts;
    mutant->killed += kill.killed();
    if (kill.killed()) {
      ++mutant->signatures[kill.sighting.signature];
      ++mutant->regimes[kill.sighting.regime];
    }
    if (kill.bucket.id.empty()) continue;
    mutant->buckets.insert(kill.bucket.id);
    SharedBucket& bucket = buckets[kill.bucket.id];
    bucket.key = kill.bucket.key;
    ++bucket.targets[kill.target];
  }
  for (size_t m = 0; m < all.mutants.size(); ++m) {
    MutantStatistics& mutant = all.mutants[m];
    mutant.cases_median = PercentileOr0(of_mutant[m].cases, 50);
    mutant.cases_p90 = PercentileOr0(of_mutant[m].cases, 90);
    mutant.values_median = PercentileOr0(of_mutant[m].values, 50);
    mutant.shrinking_median = PercentileOr0(of_mutant[m].shrinking, 50);
  }
  all.cases_median = PercentileOr0(samples.cases, 50);
  all.values_median = PercentileOr0(samples.values, 50);
  all.shrinking_median = PercentileOr0(samples.shrinking, 50);
  all.shrinking_max = PercentileOr0(samples.shrinking, 100);
  all.buckets = static_cast<int64_t>(buckets.size());
  for (auto& [id, bucket] : buckets) {
    if (bucket.targets.size() > 1) all.shared.push_back(std::move(bucket));
  }
  return all;
}

std::string StatisticsText(const KillStatistics& statistics) {
  std::string text;
  const bool several = std::any_of(statistics.mutants.begin(), statistics.mutants.end(),
                                   [](const MutantStatistics& m) { return m.hunts > 1; });
  if (several) {
    std::vector<std::vector<std::string>> table = {
        {"mutant", "killed", "cases", "90 %", "check", "regime", "shrunk to", "in seconds", "buckets"}};
    for (const MutantStatistics& m : statistics.mutants) {
      table.push_back({m.target, Text("%" PRId64 "/%" PRId64, m.killed, m.hunts),
                       Text("%.0f", m.cases_median), Text("%.0f", m.cases_p90),
                       MostFrequent(m.signatures), MostFrequent(m.regimes),
                       Text("%.0f", m.values_median), Text("%.2f", m.shrinking_median),
                       std::to_string(m.buckets.size())});
    }
    text += Table(table) + "\n";
  }
  int64_t hunts = 0, killed = 0;
  const MutantStatistics* slowest = nullptr;
  for (const MutantStatistics& m : statistics.mutants) {
    hunts += m.hunts;
    killed += m.killed;
    if (slowest == nullptr || m.cases_p90 > slowest->cases_p90) slowest = &m;
  }
  if (slowest == nullptr) return text;
  text += Text("%" PRId64 " of %" PRId64 " hunts for %zu mutants ended with a kill\n", killed, hunts,
               statistics.mutants.size());
  text += Text("cases to a kill: median %.0f; 90th percentile of one mutant at most %.0f (%s)\n",
               statistics.cases_median, slowest->cases_p90, slowest->target.c_str());
  text += Text("values after shrinking: median %.0f; seconds of shrinking: median %.2f, most %.2f\n",
               statistics.values_median, statistics.shrinking_median, statistics.shrinking_max);
  text += Text("buckets: %" PRId64 ", of which %.1f %% hold one cause\n", statistics.buckets,
               100 * statistics.Purity());
  for (const SharedBucket& bucket : statistics.shared) {
    text += "  shared:";
    for (const auto& [target, count] : bucket.targets)
      text += Text(" %s (%" PRId64 ")", target.c_str(), count);
    text += ": " + bucket.key + "\n";
  }
  return text;
}

Json ToJson(const KillStatistics& statistics) {
  Json json;
  json["mutants"] = Json(Json::Array{});
  for (const MutantStatistics& m : statistics.mutants) {
    Json entry;
    entry["target"] = m.target;
    entry["hunts"] = m.hunts;
    entry["killed"] = m.killed;
    entry["cases_median"] = m.cases_median;
    entry["cases_p90"] = m.cases_p90;
    entry["values_median"] = m.values_median;
    entry["shrinking_seconds_median"] = m.shrinking_median;
    entry["signatures"] = ToJson(m.signatures);
    entry["regimes"] = ToJson(m.regimes);
    entry["buckets"] = Json(Json::Array{});
    for (const std::string& id : m.buckets) entry["buckets"].Append(id);
    json["mutants"].Append(std::move(entry));
  }
  json["cases_median"] = statistics.cases_median;
  json["values_median"] = statistics.values_median;
  json["shrinking_seconds_median"] = statistics.shrinking_median;
  json["shrinking_seconds_max"] = statistics.shrinking_max;
  json["buckets"] = statistics.buckets;
  json["purity"] = statistics.Purity();
  json["shared_buckets"] = Json(Json::Array{});
  for (const SharedBucket& bucket : statistics.shared) {
    Json entry;
    entry["key"] = bucket.key;
    entry["targets"] = ToJson(bucket.targets);
    json["shared_buckets"].Append(std::move(entry));
  }
  return json;
}

}  // namespace plumbline::fuzz
