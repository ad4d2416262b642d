// SPDX-License-Identifier: Apache-2.0
//
// Judges one stored case on one target, in a fresh worker process, with the arbiter. `plumb replay` and
// `plumb merge` share this.

#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "fuzz/cases/file.h"
#include "fuzz/cases/state.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

// Keeps one runner for each target, from case to case.
class Runners {
 public:
  // `program`: the program that a worker process runs (WorkerSpec). `interrupt`: never null; when set,
  // it ends the wait for a worker.
  Runners(std::filesystem::path program, const std::atomic<bool>* interrupt,
          std::chrono::milliseconds deadline)
      : program_(std::move(program)), interrupt_(interrupt), deadline_(deadline) {}
  CaseRunner& For(const std::string& target);

 private:
  std::filesystem::path program_;
  const std::atomic<bool>* interrupt_;
  std::chrono::milliseconds deadline_;
  std::map<std::string, std::unique_ptr<CaseRunner>> runners_;
};

struct Replay {
  Judged::Kind kind = Judged::Kind::kJudged;
  std::string error;   // kUnavailable
  Replayed what{};     // this and all below: kJudged
  std::string detail;  // one line
  CaseResult result;
  std::string target_version;  // as the target states it
  double seconds = 0;
};

Replay ReplayCase(const Case& c, CaseRunner* runner);

// Changes the case's state by the result, with an entry in extra.history (the newest eight are kept).
// Returns false if the state stays.
bool Advance(Case* c, const Replay& replay);

}  // namespace plumbline::fuzz
