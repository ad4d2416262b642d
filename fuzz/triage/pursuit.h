// SPDX-License-Identifier: Apache-2.0
//
// Turns a failing problem into a stored case: it measures how often the problem fails, shrinks it while
// it keeps its signature, confirms the result with the arbiter in a fresh worker, finds out which of
// its parts may vary, and describes it. If the small problem is not confirmed, the original problem is
// stored.
//
// A finding that fails on some runs only (fuzz/triage/repeat.h) is shrunk by the majority of several
// runs a candidate. One without a majority cannot be shrunk and is stored as it was found.
//
// The arbiter is asked at the end and at every kAuditEvery-th step. If it contradicts the reference,
// the step is not taken, and the candidate is the witness of a fault of the harness.

#ifndef PLUMBLINE_FUZZ_TRIAGE_PURSUIT_H_
#define PLUMBLINE_FUZZ_TRIAGE_PURSUIT_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/cases/file.h"
#include "fuzz/triage/sighting.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

struct FailingProblem {
  OwnedProblem problem;
  Finding finding;     // seen on `problem`
  std::string recipe;  // the line that first showed it; may be empty
  std::string why;     // the regime's line
  uint64_t seed = 0;   // ExamineOptions::seed under which it was seen
};

struct PursuitOptions {
  std::chrono::milliseconds shrink_time{30'000};
  std::chrono::milliseconds explain_time{2'000};  // part of shrink_time; 0: no explanation is made
  // The best so far is written here after every step, and removed at the end; empty: nowhere.
  std::filesystem::path best_so_far;
  // Called with the number of values after every accepted step.
  std::function<void(int64_t)> on_smaller;
};

// Candidates that were not taken because they fail in another way than `start` does: the smallest of
// each of up to this many signatures is kept.
inline constexpr size_t kMostSlips = 4;

struct Pursued {
  enum class Kind : uint8_t { kCase, kInterrupted, kUnavailable };
  Kind kind = Kind::kCase;
  std::string error;   // kUnavailable
  Case stored;         // kCase; `extra` holds bucket, shrink log, what may vary, seed and versions
  StoredFinding kept;  // kCase; `file` is left empty
  std::vector<Case> other_findings;  // kCase; each confirmed with the arbiter
  // If not empty, reference and arbiter disagree on `witness`, which is then not among the steps taken.
  std::string harness_fault;
  std::optional<Case> witness;
};

Pursued Pursue(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options);

// Returns the seed with which a stored case was seen; 0 if the case does not say.
uint64_t SeedOf(const Case& c);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_PURSUIT_H_
