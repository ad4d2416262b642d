// SPDX-License-Identifier: Apache-2.0
//
// From a failing problem to a stored case: shrink it while it keeps its signature, confirm what is left
// with the arbiter in a fresh worker, and describe it. Where the small problem is not confirmed, the
// problem as it came is what is kept.

#ifndef PLUMBLINE_FUZZ_PURSUIT_H_
#define PLUMBLINE_FUZZ_PURSUIT_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "fuzz/case_file.h"
#include "fuzz/case_runner.h"
#include "fuzz/sighting.h"

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
  // The best so far is written here after every step, and removed at the end; empty: nowhere.
  std::filesystem::path best_so_far;
  // Called with the number of values after every accepted step.
  std::function<void(int64_t)> on_smaller;
};

struct Pursued {
  enum class Kind : uint8_t { kCase, kInterrupted, kUnavailable };
  Kind kind = Kind::kCase;
  std::string error;   // kUnavailable
  Case stored;         // kCase; `extra` holds the shrink log, the seed and versions
  StoredFinding kept;  // kCase; `file` is left empty
  // Not empty: reference and arbiter disagree on the small problem. The case is then the fault's
  // witness, and its finding the last one that was confirmed.
  std::string harness_fault;
};

Pursued Pursue(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options);

// The seed that a stored case was seen under; 0 where it does not say.
uint64_t SeedOf(const Case& c);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_PURSUIT_H_
