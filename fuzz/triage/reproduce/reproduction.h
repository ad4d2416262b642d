// SPDX-License-Identifier: Apache-2.0
//
// Asks a target whether problems still show one finding. The shrinker's predicate, its audit and its
// reason to stop are members of Reproduction, and so is the place for the best problem so far.
//
// A finding that fails on some runs only (races, memory that was never written, atomics whose order
// matters) is decided by the majority of several runs a candidate.
//
// If the arbiter contradicts the reference, the candidate is the witness of a fault of the harness.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/cases/file.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

// Five is a compromise. What fails 7 times in 10 has the majority of five 84 times in 100, what always
// fails has it always, and a case costs five runs.
inline constexpr int64_t kRepeats = 5;

struct Repeats {
  int64_t failed = 0, of = 0;
  bool Always() const { return of > 0 && failed == of; }
  bool Majority() const { return 2 * failed > of; }
  bool operator==(const Repeats&) const = default;
};

// Asks `times` times, fewer if `limit` is over before; at least once.
Repeats Repeat(int64_t times, std::chrono::milliseconds limit, const std::function<bool()>& fails);

// True if more than half of `times` runs fail. Stops as soon as that is decided.
bool MajorityFails(int64_t times, const std::function<bool()>& fails);

struct FailingProblem {
  OwnedProblem problem;
  Finding finding;       // seen on `problem`
  std::string recipe;    // the line that first showed it; may be empty
  std::string drawn_by;  // what the regime is for
  uint64_t seed = 0;     // ExamineOptions::seed under which it was seen
};

// Where the smallest problem so far is left for others to read, after every step of the shrinker.
struct BestSoFar {
  std::filesystem::path file{};            // a case; empty: nowhere
  std::atomic<int64_t>* values = nullptr;  // its number of values; null: nowhere
};

// Candidates that were not taken because they fail in another way than `start` does: the smallest of
// each of up to this many signatures is kept.
inline constexpr size_t kMostSlips = 4;

class Reproduction {
 public:
  struct Slip {
    OwnedProblem problem;
    Finding finding;
  };
  struct Confirmation {
    Repeats repeats;
    std::optional<Finding> finding;  // as the arbiter confirmed it
  };

  // All must outlive this. `clock`: false if the number of repeats must not depend on the time.
  Reproduction(const FailingProblem& start, CaseRunner* runner, const BestSoFar& best,
               bool clock = true);

  // Runs start's problem several times, and decides by majority from now on if it passed once.
  Repeats Measure();
  // Returns why the last of these runs came to no verdict; empty if it did.
  const std::string& start_fault() const { return start_fault_; }
  bool by_majority() const { return by_majority_; }
  void DecideByMajority() { by_majority_ = true; }

  bool Fails(const OwnedProblem& candidate);
  // Asks the arbiter. Returns false if it does not confirm the finding, unless it is one that fails on
  // some runs only.
  bool Audit(const OwnedProblem& candidate);
  void Keep(const OwnedProblem& smaller) const;  // as the best so far
  // True once the target is not available or the interrupt flag was seen: state() says which. All
  // candidates pass from then on.
  bool stopped() const { return state_ != Judged::Kind::kJudged; }

  // Asks in a fresh worker, the arbiter first, then as often as Measure.
  Confirmation Confirm(const OwnedProblem& problem);
  // Returns the finding of that signature as the arbiter has confirmed it; nullopt if it was not seen,
  // or the harness is at fault.
  std::optional<Finding> Arbitrate(const OwnedProblem& problem, std::string_view signature);
  // Returns the signatures of the same problem with every output asked for, its own included; sorted. A
  // problem without an upstream gradient has one of 1; where a gradient is wrong, it is run as it is,
  // too. `entropy_gradient`: with an upstream gradient of entropy, if it has none.
  std::vector<std::string> AlsoShows(OwnedProblem problem, bool entropy_gradient = false);
  // Return the signatures that some of Measure's runs showed, and those that all did.
  const std::set<std::string>& known() const { return known_; }
  const std::set<std::string>& always() const { return always_; }
  // Signatures that Fails has seen since; `otherwise`: the last candidate failed, but in another way.
  const std::set<std::string>& seen() const { return seen_; }
  void ForgetSeen() { seen_.clear(); }
  bool otherwise() const { return otherwise_; }
  // Returns the case of a problem, without a bucket or how it was shrunk.
  Case Describe(OwnedProblem problem, const Finding& finding) const;

  const std::string& signature() const { return signature_; }
  bool hangs() const { return hangs_; }
  bool by_magnitude() const { return start_.finding.kind == FindingKind::kMagnitude; }
  Judged::Kind state() const { return state_; }
  const std::string& error() const { return error_; }  // why the target is not available
  const std::vector<Slip>& slips() const { return slips_; }
  // If there is a witness, reference and arbiter disagree on it.
  const std::string& harness_fault() const { return harness_fault_; }
  const std::optional<Case>& witness() const { return witness_; }

 private:
  bool Note(const Judged& judged);  // false: the target is not available any more
  bool FailsOnce(const OwnedProblem& candidate);
  void NoteSlips(const OwnedProblem& candidate, const CaseResult& result);

  const FailingProblem& start_;
  CaseRunner& runner_;
  const BestSoFar& best_;
  const std::string signature_;
  const bool hangs_;
  const std::chrono::milliseconds deadline_;
  bool by_majority_ = false;
  Finding last_seen_;
  const std::chrono::milliseconds repeat_time_;
  std::set<std::string> known_;  // signatures of start's problem
  std::set<std::string> always_, seen_;
  int64_t start_runs_ = 0;
  bool otherwise_ = false;
  std::vector<Slip> slips_;
  Judged::Kind state_ = Judged::Kind::kJudged;
  std::string error_, harness_fault_, start_fault_;
  std::optional<Case> witness_;
};

}  // namespace plumbline::fuzz
