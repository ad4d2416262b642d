// SPDX-License-Identifier: Apache-2.0
//
// Judges cases on one target, whatever the target does to its process: starts workers, starts them
// again, and turns deaths into findings.
//
//   a worker dies         the case is run again, alone in a fresh worker. Dies again: a kCrash finding.
//                         Does not: still a kCrash finding, marked as not reproduced, because memory
//                         that an earlier case damaged is the target's fault too. SIGKILL is excepted:
//                         that is the kernel short of memory, or a person.
//   past its deadline     killed and run again, alone. Again: a kHang finding. Not again: counted as
//                         retried, for a busy machine looks the same.
//
// The arbiter may take longer than a target's deadline, and its time is not the target's: a case that
// the arbiter is asked about is judged once more for it, under a deadline of its own.

#ifndef PLUMBLINE_FUZZ_WORKER_CASE_RUNNER_H_
#define PLUMBLINE_FUZZ_WORKER_CASE_RUNNER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
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
  bool retried = false;        // the first attempt died or passed its deadline
  std::set<std::string> once;  // signatures that were seen and, on the same case, not seen again
};

class CaseRunner {
 public:
  CaseRunner(WorkerSpec spec, std::chrono::milliseconds deadline, const std::atomic<bool>* interrupt)
      : spec_(std::move(spec)), deadline_(deadline), interrupt_(interrupt) {}

  // Starts the worker if none runs. False: the target is not available, and why.
  bool Ready(std::string* error);
  // Judges a case, with a second attempt where the first one dies; the arbiter is not asked.
  Judged Run(const Request& request);
  // A case that Run found failing, now with the arbiter: nothing is a finding before it has spoken.
  // A case that passed, was skipped, or died comes back as it is.
  Judged Confirm(Request request, Judged first);
  // A case that Run saw pass, judged again with the arbiter. Whatever is wrong this time counts as seen
  // once.
  Judged AskOnPass(Request request, Judged first);
  // Run and Confirm.
  Judged RunAndConfirm(const Request& request) { return Confirm(request, Run(request)); }
  // One attempt: while shrinking, a death is an answer like any other.
  Judged RunOnce(const Request& request, std::chrono::milliseconds deadline);
  // The next case starts in a fresh worker.
  void Renew() { worker_.reset(); }

  const std::string& target() const { return spec_.target; }
  std::chrono::milliseconds deadline() const { return deadline_; }
  const Hello& hello() const { return hello_; }  // from the last worker that got ready

 private:
  Judged Attempt(const Request& request, std::chrono::milliseconds deadline, int* signal);

  WorkerSpec spec_;
  std::chrono::milliseconds deadline_;
  const std::atomic<bool>* interrupt_;
  std::unique_ptr<WorkerProcess> worker_;
  Hello hello_;
};

// The first finding of this signature; nullptr if there is none.
const Finding* FindSignature(const CaseResult& result, std::string_view signature);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_WORKER_CASE_RUNNER_H_
