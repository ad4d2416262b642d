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

#ifndef PLUMBLINE_FUZZ_CASE_RUNNER_H_
#define PLUMBLINE_FUZZ_CASE_RUNNER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/examine.h"
#include "fuzz/worker_process.h"

namespace plumbline::fuzz {

struct Judged {
  enum class Kind : uint8_t { kJudged, kUnavailable, kInterrupted };
  Kind kind = Kind::kJudged;
  CaseResult result;       // kJudged
  std::string error;       // kUnavailable: the target's own words
  bool retried = false;    // the first attempt died or passed its deadline
  bool reproduced = true;  // false: a crash that did not happen again
};

class CaseRunner {
 public:
  CaseRunner(WorkerSpec spec, std::chrono::milliseconds deadline, const std::atomic<bool>* interrupt)
      : spec_(std::move(spec)), deadline_(deadline), interrupt_(interrupt) {}

  // Starts the worker if none runs. False: the target is not available, and why.
  bool Ready(std::string* error);
  // As above, with the second attempt.
  Judged Run(const Request& request);
  // One attempt: while shrinking, a death is an answer like any other.
  Judged RunOnce(const Request& request, std::chrono::milliseconds deadline);
  // The next case starts in a fresh worker.
  void Renew() { worker_.reset(); }

  const std::string& target() const { return spec_.target; }
  std::chrono::milliseconds deadline() const { return deadline_; }
  const Hello& hello() const { return hello_; }  // of the last worker that got ready

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

#endif  // PLUMBLINE_FUZZ_CASE_RUNNER_H_
