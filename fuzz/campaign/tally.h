// SPDX-License-Identifier: Apache-2.0
//
// The totals of a campaign on one target, computed from the records of its cases alone.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/exit_status.h"
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

// How a named contract fits the cases that were judged by it as well.
struct FitTally {
  int64_t cases = 0, contradicted = 0;
  double tightness = 0;  // the sum over the cases of the largest error/bound, at most 1 each
};

struct Tally {
  // cases = the other five + faults
  int64_t cases = 0, pass = 0, fail = 0, suspect = 0, skipped = 0, vacuous = 0;
  int64_t faults = 0, retried = 0;
  int64_t drawn = 0, drawn_judged = 0;  // those of the cases that are no stored ones
  int64_t arbitrated =
      0;  // elements that the arbiter was asked about; the one number that depends on time
  std::map<std::string, double> tightness;  // the largest, by output
  ElementCounts elements{};
  int64_t suspect_elements = 0;
  std::map<std::string, FitTally> fits;  // by named contract
  std::map<CaseClass, ClassTally> classes;
  std::map<std::string, int64_t> signatures;    // cases that showed it
  std::map<std::string, int64_t> skip_reasons;  // by SkipGroup
  oracle::ConventionsSeen conventions;

  void Add(const CaseRecord& record);
  int64_t Judged() const { return pass + fail + suspect; }
  // kThin if too few of the drawn cases were judged; where none was drawn, if no stored one was.
  // Stored cases do not count beside drawn ones: a target may skip the cases of others.
  ExitStatus Thinness() const;
};

// Returns "13 of 1056 drawn cases were judged (1040 skipped, 3 vacuous); skipped most: H = 783 (410)".
std::string HowFewJudged(const Tally& tally);

// Returns the reasons' common part: the capability that a problem needs, without what the problem has
// ("H = 783: hidden_multiple is 128"), and a target's own words with N in place of each number.
std::string SkipGroup(std::string_view reason);

Json ToJson(const Tally& tally);

// Returns one line for each convention that the target follows otherwise than the definition
// (ConventionLines).
std::vector<std::string> ConventionsOf(const Tally& tally);

// Says which named contracts are consistent with all cases that were judged by them, and proposes the
// tightest, `held_to` apart: that whose bounds were reached farthest. Empty if no case was.
std::vector<std::string> ProposalOf(const Tally& tally, std::string_view held_to);

}  // namespace plumbline::fuzz
