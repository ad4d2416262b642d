// SPDX-License-Identifier: Apache-2.0
//
// The parts of an examination that do not depend on where the tensors lie: Examine
// (fuzz/examine/examine.h) keeps them in host memory, ExamineOnDevice
// (fuzz/gpu/production/examine_on_device.h) on the device.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fuzz/examine/placement.h"
#include "fuzz/examine/result.h"
#include "fuzz/examine/tiers.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {

// The runs of one target on one problem.
class Runs {
 public:
  virtual ~Runs() = default;
  // Runs over poison 0 or 1. `held_up` delays work that does not wait for the device's stream.
  virtual RunOutcome Run(int poison, bool held_up) = 0;
  // Returns the damage of the last run.
  virtual std::vector<Placement::Damage> Inspect() = 0;
  // Keeps what the first run gave, and compares the second run with it.
  virtual void KeepBits() = 0;
  virtual void CompareBits(std::vector<Finding>* findings) = 0;
  virtual double seconds() const = 0;  // of all runs
};

// Steps 1 and 2 of fuzz/examine/examine.h. `problem`: labels, temperature and shapes are read. Returns
// false if there is nothing to judge. `held_up` delays the second run: work that runs too early then
// meets the other poison, and its result differs from the first run's.
bool RunTwice(const OwnedProblem& problem, bool held_up, Runs* runs, CaseResult* result);

// Takes the oracle's judgement, and the first_invalid_row that the target gave, if it was asked for.
// Returns false if an element fails.
bool TakeJudgement(const TieredJudgement& tiered, std::optional<int64_t> first_invalid_row,
                   CaseResult* result);

FindingKind KindOf(oracle::Failure failure);
void AddDamage(const std::vector<Placement::Damage>& damage, std::vector<Finding>* findings);

// Concludes a case from the results of its targets, one each. If there are several, the case is passed
// if all have passed it; findings name their target.
CaseResult Conclude(std::span<const Target* const> targets, std::vector<CaseResult> results);

}  // namespace plumbline::fuzz
