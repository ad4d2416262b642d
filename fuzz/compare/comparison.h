// SPDX-License-Identifier: Apache-2.0
//
// Targets that were given the same cases, side by side: what `plumb compare` stores (COMPARE.md).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/fields.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/compare/accuracy.h"

namespace plumbline::fuzz {

inline constexpr const char* kComparisonName = "comparison.json";  // in its folder

struct ComparedFinding {
  std::string signature, severity, what;
  std::string file;  // of the smallest case, relative to the comparison's folder; empty: none is kept
  std::string shortcut;  // the known rounding that explains it
  bool suspect = false;
};

struct ComparedTarget {
  std::string target;       // as it was named
  std::string held_to;      // the contract, where it is not the target's own
  std::string unavailable;  // why nothing is known of it
  std::string verdict;      // of its campaign: the name of an ExitStatus
  int64_t cases = 0, judged = 0;
  std::vector<ComparedFinding> findings;  // the gravest first
  std::vector<std::string> shortcuts;     // that were inferred, in words
  std::vector<std::string> conventions;   // in which it differs from the definition
  std::vector<std::string> limits;        // what it declares that it cannot do
  std::vector<SkippedCases> skipped;
  bool deterministic = true, batch_invariant = true;  // as far as was seen
  bool special_rows = true;  // no NaN, sign or element that must be 0 was wrong
  Accuracy accuracy;
};

struct TargetComparison {
  std::string plumb;  // its version
  uint64_t seed = 0;
  int64_t cases = 0, problems = 0;
  std::string contract, yardstick;  // `contract`: that all are held to; empty: what each declares
  std::vector<ComparedTarget> targets;

  const ComparedTarget* Find(std::string_view target) const;
  // Whether the other's targets may stand in this one: all else is the same.
  bool SameCases(const TargetComparison& other) const;
};

// What a finished campaign of one target says of it. `folder`: that of the campaign, relative to the
// comparison's.
ComparedTarget OfCampaign(const std::string& target, const CampaignSummary& summary,
                          std::string_view folder);

// The gravest status of its targets (Gravest); a shortcut that was inferred counts as a finding.
ExitStatus StatusOf(const TargetComparison& comparison);

void Fields(FieldVisitor& io, ComparedFinding& finding);
void Fields(FieldVisitor& io, ComparedTarget& target);
void Fields(FieldVisitor& io, TargetComparison& comparison);

}  // namespace plumbline::fuzz
