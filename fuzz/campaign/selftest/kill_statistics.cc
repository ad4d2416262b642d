// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/selftest/kill_statistics.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

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
  return Json::Object(counts.begin(), counts.end());
}

}  // namespace

void Samples::Add(const Kill& kill) {
  cases.push_back(static_cast<double>(kill.cases));
  if (!kill.sighting.kept) return;
  values.push_back(static_cast<double>(kill.sighting.kept->values_after));
  shrinking.push_back(kill.sighting.kept->seconds);
}

double Percentile(std::vector<double> values, int percent) {
  if (values.empty()) return 0;
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
  std::map<std::string, SharedBucket> buckets;  // by id
  for (const Kill& kill : kills) {
    if (!kill.allowed.empty()) continue;
    auto mutant = std::find_if(all.mutants.begin(), all.mutants.end(),
                               [&](const MutantStatistics& m) { return m.target == kill.target; });
    if (mutant == all.mutants.end()) {
      all.mutants.emplace_back().target = kill.target;
      mutant = all.mutants.end() - 1;
    }
    // A mutant that was not killed ranks after every one that was, whatever it had tried.
    Kill counted = kill;
    for (const Kill& other : kills) {
      if (!kill.killed()) counted.cases = std::max(counted.cases, other.cases);
    }
    mutant->samples.Add(counted);
    all.samples.Add(counted);
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
                       Text("%.0f", Percentile(m.samples.cases, 50)),
                       Text("%.0f", Percentile(m.samples.cases, 90)), MostFrequent(m.signatures),
                       MostFrequent(m.regimes), Text("%.0f", Percentile(m.samples.values, 50)),
                       Text("%.2f", Percentile(m.samples.shrinking, 50)),
                       std::to_string(m.buckets.size())});
    }
    text += Table(table) + "\n";
  }
  int64_t hunts = 0, killed = 0;
  const MutantStatistics* slowest = nullptr;
  for (const MutantStatistics& m : statistics.mutants) {
    hunts += m.hunts;
    killed += m.killed;
    if (slowest == nullptr || Percentile(m.samples.cases, 90) > Percentile(slowest->samples.cases, 90))
      slowest = &m;
  }
  if (slowest == nullptr) return text;
  text += Text("%" PRId64 " of %" PRId64 " hunts for %zu mutants ended with a kill\n", killed, hunts,
               statistics.mutants.size());
  text += Text("cases to a kill: median %.0f; 90th percentile of one mutant at most %.0f (%s)\n",
               Percentile(statistics.samples.cases, 50), Percentile(slowest->samples.cases, 90),
               slowest->target.c_str());
  text += Text("values after shrinking: median %.0f; seconds of shrinking: median %.2f, most %.2f\n",
               Percentile(statistics.samples.values, 50), Percentile(statistics.samples.shrinking, 50),
               Percentile(statistics.samples.shrinking, 100));
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
  Json json = Json::Object{{"mutants", Json::Array{}},
                           {"cases_median", Percentile(statistics.samples.cases, 50)},
                           {"values_median", Percentile(statistics.samples.values, 50)},
                           {"shrinking_seconds_median", Percentile(statistics.samples.shrinking, 50)},
                           {"shrinking_seconds_max", Percentile(statistics.samples.shrinking, 100)},
                           {"buckets", statistics.buckets},
                           {"purity", statistics.Purity()},
                           {"shared_buckets", Json::Array{}}};
  for (const MutantStatistics& m : statistics.mutants) {
    json["mutants"].Append(
        Json::Object{{"target", m.target},
                     {"hunts", m.hunts},
                     {"killed", m.killed},
                     {"cases_median", Percentile(m.samples.cases, 50)},
                     {"cases_p90", Percentile(m.samples.cases, 90)},
                     {"values_median", Percentile(m.samples.values, 50)},
                     {"shrinking_seconds_median", Percentile(m.samples.shrinking, 50)},
                     {"signatures", ToJson(m.signatures)},
                     {"regimes", ToJson(m.regimes)},
                     {"buckets", Json::Array(m.buckets.begin(), m.buckets.end())}});
  }
  for (const SharedBucket& bucket : statistics.shared) {
    json["shared_buckets"].Append(
        Json::Object{{"key", bucket.key}, {"targets", ToJson(bucket.targets)}});
  }
  return json;
}

}  // namespace plumbline::fuzz
