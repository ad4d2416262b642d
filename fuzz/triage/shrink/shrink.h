// SPDX-License-Identifier: Apache-2.0
//
// The shrinker makes a failing problem small and its values simple while it keeps failing in the same
// way. Its passes, each repeated until nothing changes: locate the row, options, rows, vocabulary
// (delete, and neutralise with the same residue modulo the tile), hidden, values.
//
// The predicate decides. It tests for the finding's signature, so a candidate that fails in another way
// ("slips") is not taken. The shrinker is deterministic if the predicate is.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// True if the candidate still shows the finding.
using StillFails = std::function<bool(const OwnedProblem&)>;

struct ShrinkHint {
  // The place where the finding was seen. output is "" or one of oracle::Name(Output); row (or
  // vocabulary row, for grad_weight) and column are those of the worst element; -1: not known.
  std::string output;
  int64_t row = -1, column = -1;
};

inline constexpr int64_t kAuditEvery = 20;

// A target that compiles for each shape (N, V, H and the dtype), or for classes of them. Its values
// change before its shapes, then shapes that it has compiled are tried, then new ones.
struct Compiles {
  // True if the target would compile for this candidate.
  std::function<bool(const OwnedProblem&)> is_new;
  // Returns N, V and H of the shapes that it has compiled.
  std::function<std::vector<std::array<int64_t, 3>>()> known;
  int64_t first_calls = 24;  // the most new shapes that take time
  // What takes at least so long was compiled for.
  std::chrono::milliseconds least{50};
};

struct ShrinkOptions {
  // The time of first calls (Compiles) does not count, up to as much again.
  std::chrono::milliseconds time_limit{30'000};
  std::optional<int64_t> max_tries;  // limits the candidates in place of the time: no clock is read
  int64_t max_accepted = 5'000;
  std::optional<Compiles> compiles;
  // Called with every kAuditEvery-th step before it is taken; false rejects the step.
  std::function<bool(const OwnedProblem&)> audit;
  // Called before every try; true ends shrinking as a limit does.
  std::function<bool()> should_stop;
  // Called with every accepted candidate, so that the best so far is never lost.
  std::function<void(const OwnedProblem&)> on_accept;
};

struct ShrinkResult {
  OwnedProblem problem;
  int64_t tried = 0, accepted = 0;
  bool complete = false;  // a fixpoint was reached, not a limit
  int64_t first_calls = 0;
};

// The predicate must hold for `problem`; if it does not, the problem is returned unchanged, with tried
// == 1.
ShrinkResult Shrink(const OwnedProblem& problem, const ShrinkHint& hint, const StillFails& still_fails,
                    const ShrinkOptions& options = {});

}  // namespace plumbline::fuzz
