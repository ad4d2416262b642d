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

// Whether something was seen that a target promises not to do.
enum class Holding : uint8_t {
  kYes,         // not seen in any judged case
  kNo,          // seen
  kNotChecked,  // the target does not promise it, or no case was judged
};

struct ComparedTarget {
  std::string target;   // as it was named
  std::string held_to;  // the contract, where it is not the target's own
  std::string folder;   // of its campaign, in the comparison's
  std::string verdict;  // of its campaign: the name of an ExitStatus
  std::string error;    // why there is no campaign, or why it ended early; what could not be inferred
  int64_t cases = 0, judged = 0;
  std::vector<ComparedFinding> findings;  // the gravest first
  std::vector<std::string> shortcuts;     // that were inferred, in words
  std::vector<std::string> conventions;   // in which it differs from the definition
  std::vector<std::string> limits;        // what it declares that it cannot do
  std::vector<SkippedCases> skipped;
  Holding deterministic = Holding::kNotChecked, batch_invariant = Holding::kNotChecked;
  // No element was wrong that must be a number, 0, or of one sign.
  Holding special_rows = Holding::kNotChecked;
  Accuracy accuracy;

  // True if nothing of it is left to be done: a target that was not available may be now.
  bool Complete() const;
};

struct TargetComparison {
  std::string plumb;  // its version
  uint64_t seed = 0;
  int64_t cases = 0, problems = 0, palette = 0;
  std::string contract;   // that all are held to; empty: what each declares
  std::string yardstick;  // whose honest kernels are the unit of errors
  std::string infer;      // of which targets shortcuts are inferred: "python", "all" or "none"
  std::string verdict;    // StatusOf
  std::vector<ComparedTarget> targets;

  ComparedTarget* Find(std::string_view target);
  // Whether the other's targets may stand in this one: all that decides cases and verdicts is the same.
  bool SameCases(const TargetComparison& other) const;
};

// The folder of a target's campaign in a comparison: letters of its name, and a hash of all of it.
std::string FolderOfTarget(std::string_view target);

// What the campaign of one target, or the attempt to begin one, says of it.
ComparedTarget OfCampaign(const std::string& target, const CampaignSummary& summary);

// The gravest status of its targets (Gravest). A campaign that is clean but for shortcuts that were
// inferred, or a target that fails on the problems by which errors are measured, counts as a finding;
// where not all of these were run, that target is thin.
ExitStatus StatusOf(const TargetComparison& comparison);

void Fields(FieldVisitor& io, ComparedFinding& finding);
void Fields(FieldVisitor& io, ComparedTarget& target);
void Fields(FieldVisitor& io, TargetComparison& comparison);

}  // namespace plumbline::fuzz
