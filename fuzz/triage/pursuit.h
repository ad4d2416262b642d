// SPDX-License-Identifier: Apache-2.0
//
// Turns a failing problem into a stored case: it measures how often the problem fails, shrinks it while
// it keeps its signature, confirms the result with the arbiter in a fresh worker, finds out which of
// its parts may vary, and describes it. If the small problem is not confirmed, the original problem is
// stored.
//
// A finding that fails on some runs only is shrunk by the majority of several runs a candidate
// (fuzz/triage/reproduce/reproduction.h). One without a majority cannot be shrunk and is stored as it
// was found.
//
// The arbiter is asked at the end and at every kAuditEvery-th step. If it contradicts the reference,
// the step is not taken, and the candidate is the witness of a fault of the harness.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/cases/file.h"
#include "fuzz/triage/reproduce/reproduction.h"
#include "fuzz/triage/sighting.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

struct PursuitOptions {
  std::chrono::milliseconds shrink_time{30'000};
  // Part of shrink_time; 0: no explanation is made. If the target compiles for each shape it is what
  // shrinking leaves, about half of shrink_time.
  std::chrono::milliseconds explain_time{2'000};
  // Limits the candidates of the shrinker in place of the time, and those of the explanation to half as
  // many. Nothing then depends on a clock but what is a hang, so a target that is deterministic gives
  // the same case on every machine.
  std::optional<int64_t> tries;
  BestSoFar best_so_far;  // its file is removed at the end
};

struct Pursued {
  Judged::Kind kind = Judged::Kind::kJudged;
  std::string error;   // kUnavailable: the target's own words
  Case stored;         // kJudged; `extra` holds bucket, shrink log, what may vary, seed and versions
  StoredFinding kept;  // kJudged; `file` is left empty
  std::vector<Case> other_findings;  // kJudged; each confirmed with the arbiter
  // If not empty, reference and arbiter disagree on `witness`, which is then not among the steps taken.
  std::string harness_fault;
  std::optional<Case> witness;
};

Pursued Pursue(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options);

// Returns the seed with which a stored case was seen; 0 if the case does not say.
uint64_t SeedOf(const Case& c);
// Returns the request by which the case shows its finding again.
Request RequestForStored(const Case& c);

// Returns the start of a pursuit of a finding that was seen on a stored case.
FailingProblem StartFrom(Case c, Finding finding);

}  // namespace plumbline::fuzz
