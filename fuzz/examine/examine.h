// SPDX-License-Identifier: Apache-2.0
//
// Examines one case: runs a problem on a target and makes every check there is.
//
//   1. outputs poisoned, guard bands set, run; guard bands and inputs inspected;
//   2. run again over another poison: same bits, and nothing left unwritten;
//   3. every output element against the oracle's bound, in two tiers (fuzz/examine/tiers.h); if wanted,
//      errors against those of honest kernels on the same inputs (fuzz/examine/magnitude.h);
//   4. the arbiter is asked, if wanted: where the case fails, for the worst element of each output that
//      fails and 8 random ones; where it passes, for a few elements of one row or of all;
//   5. the outputs against each other (fuzz/examine/consistency_findings.h);
//   6. one row rerun alone: same bits (batch invariance); of a batch of 512 to 8192 rows 16 rows, and
//      about half of all rows as a batch of their own, last first;
//   7. in one case of eight, by the seed: a relation to another problem, bit for bit
//      (fuzz/examine/relation.h).
//
// A disagreement between reference and arbiter is a fault of the harness, never a finding.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {

struct ExamineOptions {
  uint64_t seed = 0;             // picks the row rerun alone and the arbiter's random elements
  bool arbiter = true;           // false: while shrinking, between its first and last step
  bool arbiter_on_pass = false;  // also if nothing fails: fuzz/campaign/arbiter_schedule.h says when
  double arbiter_cost = 4e7;     // multiply-adds that the arbiter may spend on a case
  // Every run has the shape of the case, for targets that compile for each shape: in place of parts of
  // the batch, all of it runs again in another order, and no relation changes an extent.
  bool same_shape = false;
  std::string_view relation = {};  // the one to check; empty: the seed decides, for one case in eight
  // Errors are also set against honest kernels' (fuzz/examine/magnitude.h), if there is one target: for
  // values like a trained model's (fuzz/recipe/ordinary.h).
  bool honest_errors = false;
  bool unit_ratios = false;  // with them, of every unit (HonestRatio::units)
  // Values beyond their bounds that no known rounding explains are findings of their own, where some
  // other case's are explained by one (Finding::unexplained).
  bool tell_apart = false;
  // Is handed what the first run gave, in host memory, in place of judging it.
  std::function<void(const kernel::Results&)> observe = {};
};

CaseResult Examine(OwnedProblem problem, const Target& target, const ExamineOptions& options = {});
// Runs several targets, at least one, whose descriptions differ in the name alone, and judges all by
// one evaluation of the oracle. The case is passed if all pass it, and skipped if one of them declines
// it. Findings name their target; counts of elements are added up.
CaseResult Examine(OwnedProblem problem, std::span<const Target* const> targets,
                   const ExamineOptions& options = {});

}  // namespace plumbline::fuzz
