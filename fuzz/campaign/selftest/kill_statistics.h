// SPDX-License-Identifier: Apache-2.0
//
// Statistics over the hunts of a selftest: the cases that a mutant takes, the size of its shrunk cases,
// and the share of buckets that hold one cause.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/campaign/selftest/hunt.h"

namespace plumbline::fuzz {

// Returns the smallest value that at least `percent` of all values do not exceed; 0 if there are none.
double Percentile(std::vector<double> values, int percent);

// The samples of the statistics, a value for each hunt; the last two of those that stored a case alone.
struct Samples {
  std::vector<double> cases;
  std::vector<double> values;     // after shrinking
  std::vector<double> shrinking;  // seconds

  void Add(const Kill& kill);
};

// Statistics of one mutant's hunts. A hunt that failed counts as longer than any that did not: it is
// last in the order, and its number is the cases that were tried.
struct MutantStatistics {
  std::string target;
  int64_t hunts = 0, killed = 0;
  Samples samples;
  std::map<std::string, int64_t> signatures, regimes;  // numbers of kills
  std::set<std::string> buckets;                       // ids
};

struct SharedBucket {
  std::string key;
  std::map<std::string, int64_t> targets;  // with the number of findings of each
};

struct KillStatistics {
  std::vector<MutantStatistics> mutants;  // in the order in which they come first
  Samples samples;                        // of all hunts
  int64_t buckets = 0;
  std::vector<SharedBucket> shared;  // those that hold findings of more than one mutant

  // Returns the share of buckets that hold one cause; 1 if there are no buckets.
  double Purity() const;
};

// Hunts for what the contract allows are left out.
KillStatistics Summarise(const std::vector<Kill>& kills);

// Prints one line a mutant if there were several hunts for each, and the summary over all.
std::string StatisticsText(const KillStatistics& statistics);
Json ToJson(const KillStatistics& statistics);

}  // namespace plumbline::fuzz
