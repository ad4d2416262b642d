// SPDX-License-Identifier: Apache-2.0
//
// The state that the shrinker's passes share: the best problem so far, and the only way to replace it.
// A candidate reaches the predicate only if it is consistent, is strictly simpler than the best
// (fuzz/triage/shrink/order.h), was never judged before, and the limits of time, steps and first calls
// allow it.

#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_set>

#include "fuzz/triage/shrink/shrink.h"

namespace plumbline::fuzz {

// The place in the best problem where the finding is assumed to be; -1: not known. It orders candidates
// and is never a condition.
struct Focus {
  int64_t row = -1, vocab = -1, column = -1;
};

// Reads the hint as rows of hidden, rows of weight and columns of both.
Focus FocusOf(const ShrinkHint& hint, const OwnedProblem& problem);

class ShrinkSession {
 public:
  // All arguments but focus must outlive the session.
  ShrinkSession(const OwnedProblem& problem, const Focus& focus, const StillFails& still_fails,
                const ShrinkOptions& options);

  // True if the problem that shrinking starts from fails at all. Called once, before anything else.
  bool Confirm();

  // Returns true if the candidate was accepted; it is then the best. `focus` is the place of the
  // finding in it; null if that has not changed.
  bool Try(OwnedProblem candidate, const Focus* focus = nullptr);

  const OwnedProblem& best() const { return result_.problem; }
  const ShrinkResult& result() const { return result_; }
  const Focus& focus() const { return focus_; }
  void Forget() { focus_ = {}; }  // shrinking continues without a hint
  bool Exhausted() const;         // true if a limit is reached; no further candidate is judged
  // States that nothing more was found. A pass that ran out of time found nothing; that is no fixpoint,
  // nor is one whose candidates had shapes that are not allowed.
  void Complete() { result_.complete = !Exhausted() && refused_ == 0; }
  // Allows `most` first calls in all, those made included, if the target compiles. A candidate of a new
  // shape that takes no time of compiling is no first call: a target that compiles for classes of
  // extents has compiled for it before.
  void AllowFirstCalls(int64_t most);

 private:
  bool IsSimpler(const OwnedProblem& candidate) const;
  bool Allows(bool new_shape) const;

  ShrinkResult result_;
  Focus focus_;
  const StillFails& still_fails_;
  const ShrinkOptions& options_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::duration compiling_{0};
  std::unordered_set<uint64_t> judged_;
  int64_t first_calls_allowed_ = 0, refused_ = 0;  // candidates since the last AllowFirstCalls
  int64_t new_shapes_ = 0;                         // that were tried
  int64_t cost_ = 0, options_score_ = 0;
  uint64_t rank_sum_ = 0;
};

// Ends a pass over `extent` things after this many tries in a row without a success. Short passes run
// to their end. With 10^5 entries each would cost its own try, and if a hundred in a row are needed,
// usually all are.
class Persistence {
 public:
  explicit Persistence(int64_t extent) : limited_(extent > 1024) {}
  bool Note(bool success) {
    failures_ = success ? 0 : failures_ + 1;
    return success;
  }
  bool Ends() const { return limited_ && failures_ >= 128; }

 private:
  bool limited_;
  int64_t failures_ = 0;
};

// Returns a 64-bit hash of everything that a predicate can see.
uint64_t Fingerprint(const OwnedProblem& problem);

}  // namespace plumbline::fuzz
