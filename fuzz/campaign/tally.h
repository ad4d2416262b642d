// SPDX-License-Identifier: Apache-2.0
//
// The totals of a campaign on one target, computed from the records of its cases alone.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/campaign/search/record.h"
#include "fuzz/recipe/class.h"

namespace plumbline::fuzz {

struct OutputTally {
  double tightness = 0;  // the largest, of elements that passed or failed
  ElementCounts elements{};
};

struct ClassTally {
  int64_t cases = 0;  // neither skipped nor a fault
  std::map<std::string, OutputTally> outputs;
};

struct Tally {
  int64_t cases = 0, pass = 0, fail = 0, skipped = 0, vacuous = 0;  // cases = the other four + faults
  int64_t faults = 0, retried = 0;
  int64_t arbitrated =
      0;  // elements that the arbiter was asked about; the one number that depends on time
  std::map<std::string, double> tightness;  // the largest, by output
  ElementCounts elements{};
  std::map<CaseClass, ClassTally> classes;
  std::map<std::string, int64_t> signatures;  // cases that showed it
  std::map<std::string, int64_t> skip_reasons;
  oracle::ConventionsSeen conventions;

  void Add(const CaseRecord& record);
};

Json ToJson(const Tally& tally);

// Returns one line for each convention that the target follows otherwise than the definition
// (ConventionLines).
std::vector<std::string> ConventionsOf(const Tally& tally);

}  // namespace plumbline::fuzz
