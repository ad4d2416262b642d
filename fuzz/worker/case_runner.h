// SPDX-License-Identifier: Apache-2.0
//
// Judges cases on one target. It starts workers, restarts them after a death, and turns deaths into
// findings.
//
//   a worker dies         the case is run again, alone in a fresh worker. Dies again: a kCrash finding.
//                         Does not: still a kCrash finding, marked as not reproduced, because memory
//                         that an earlier case damaged is the target's fault too. SIGKILL is excepted:
//                         it comes from the kernel short of memory, or a person.
//   past its deadline     killed and run again, alone. Again: a kHang finding. Not again: counted as
//                         retried, because a busy machine looks the same. A case of more than 2^28
//                         logits has 20 minutes, whatever the campaign's deadline is. A case whose
//                         shape is new to a worker has WorkerSpec::first_call, if that is later.
//
// The arbiter may take longer than a target's deadline, and its time is not the target's. So a case
// that the arbiter is asked about is judged once more for it, under its own deadline.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "fuzz/examine/result.h"
#include "fuzz/worker/process.h"

namespace plumbline::fuzz {

struct Judged {
  enum class Kind : uint8_t { kJudged, kUnavailable, kInterrupted };
  Kind kind = Kind::kJudged;
  CaseResult result;           // kJudged
  std::string error;           // kUnavailable: the target's own words
  int signal = 0;              // that ended the worker in the last attempt, or 0
  bool retried = false;        // the first attempt died or passed its deadline
  std::set<std::string> once;  // signatures that were seen and, on the same case, not seen again
};

// Whether the worker ended in this case, or was killed at its deadline.
bool IsDeath(const CaseResult& result);

class CaseRunner {
 public:
  CaseRunner(WorkerSpec spec, std::chrono::milliseconds deadline, const std::atomic<bool>* interrupt)
      : spec_(std::move(spec)), deadline_(deadline), interrupt_(interrupt) {}

  // Starts the worker if none runs. Returns false, with the reason, if the target is not available.
  bool Ready(std::string* error);
  // Judges a case, with a second attempt if the first one dies; the arbiter is not asked. `meanwhile`,
  // if set, is called while the worker judges, or not at all if no worker began.
  Judged Run(const Request& request, const std::function<void()>& meanwhile = {});
  // Judges again, with the arbiter, a case that Run found failing: nothing is a finding without the
  // arbiter. A case that passed, was skipped, or died is returned unchanged.
  Judged Confirm(Request request, Judged first);
  // Judges again, with the arbiter, a case that passed in Run. A finding of this run counts as seen
  // once.
  Judged AskOnPass(Request request, Judged first);
  // Calls Run and Confirm.
  Judged RunAndConfirm(const Request& request) { return Confirm(request, Run(request)); }
  // Makes one attempt: while shrinking, a death is an answer like any other.
  Judged RunOnce(const Request& request, std::chrono::milliseconds deadline,
                 const std::function<void()>& meanwhile = {});
  // Makes the next case start in a fresh worker.
  void Renew() { worker_.reset(); }

  const std::string& target() const { return spec_.target; }
  std::chrono::milliseconds deadline() const { return deadline_; }  // the campaign's
  // Returns the campaign's deadline, or that of a case with more than kManyLogits logits.
  std::chrono::milliseconds DeadlineOf(const Request& request) const;
  const Hello& hello() const { return hello_; }  // of the last worker that became ready
  // For a target that compiles for each shape (WorkerSpec::first_call): what the worker has compiled.
  bool compiles() const { return spec_.first_call.count() > 0; }
  const std::set<CompiledShape>& shapes() const { return shapes_; }

 private:
  WorkerSpec spec_;
  std::chrono::milliseconds deadline_;
  const std::atomic<bool>* interrupt_;
  std::unique_ptr<WorkerProcess> worker_;
  Hello hello_;
  std::set<CompiledShape> shapes_;  // that the worker has run, if compiles()
};

// Returns the first finding with this signature; nullptr if there is none.
const Finding* FindSignature(const CaseResult& result, std::string_view signature);

}  // namespace plumbline::fuzz
