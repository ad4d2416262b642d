// SPDX-License-Identifier: Apache-2.0
//
// The supervisor's side of one worker. It starts this same program as the worker, sends it requests,
// enforces the deadline, and kills it. It does not restart a worker that died:
// fuzz/worker/case_runner.h decides what a death means.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "fuzz/base/child_process.h"
#include "fuzz/worker/message.h"
#include "fuzz/worker/protocol.h"

namespace plumbline::fuzz {

struct WorkerSpec {
  std::string target{};
  std::filesystem::path program = "/proc/self/exe";  // run as `program worker --target T --parent PID`
  std::filesystem::path log{};  // as in ChildSpec, both; the size is checked ten times a second
  int64_t log_limit = int64_t{1} << 20;
  // The bytes that the worker may allocate after its target is loaded; 0: no limit. A target that leaks
  // then ends its worker and does not exhaust the machine. Targets on a device have no limit: a driver
  // reserves far more than it uses.
  int64_t memory = 0;
  // Recipes are of production size: fuzz/gpu/production/examine_on_device.h.
  bool production = false;
  // For a target that compiles for each shape, the deadline of a case whose shape is new to the
  // worker. A case is then run in its own shape alone (ExamineOptions::same_shape). 0: it does not
  // compile.
  std::chrono::milliseconds first_call{0};
  // The time to load the target; a Python target imports its framework here.
  std::chrono::milliseconds start_timeout{120'000};
};

struct Answer {
  enum class Kind : uint8_t {
    kResult,
    kDied,         // the process ended, or sent what is no reply
    kTimedOut,     // the deadline passed; the process was killed
    kInterrupted,  // the interrupt flag was seen; the process was killed
  };
  Kind kind = Kind::kResult;
  CaseResult result;  // kResult
  std::string what;   // otherwise: "killed by signal 6 (Aborted)", and its last line
  int signal = 0;     // the signal that killed it, or 0
};

class WorkerProcess {
 public:
  // Returns null, with the target's own words, if it does not load. `interrupt`, if set, must outlive
  // this. The worker dies with the thread that calls this (prctl(2), PR_SET_PDEATHSIG).
  static std::unique_ptr<WorkerProcess> Start(const WorkerSpec& spec,
                                              const std::atomic<bool>* interrupt, std::string* error);
  ~WorkerProcess();  // kills it, with everything in its process group, and reaps it
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // After any answer but kResult the worker is gone and Ask must not be called again. `meanwhile`, if
  // set, is called once the request is sent.
  Answer Ask(const Request& request, std::chrono::milliseconds deadline,
             const std::function<void()>& meanwhile = {});

  const Hello& hello() const { return hello_; }
  pid_t pid() const { return child_.pid(); }

 private:
  WorkerProcess() = default;
  bool Spawn(const WorkerSpec& spec, std::string* error);
  bool interrupted() const { return interrupt_ != nullptr && interrupt_->load(); }
  Patience Until(std::chrono::milliseconds deadline);
  std::string HowItEnded() const;
  Answer Ended(MessageStatus status);

  ChildProcess child_;
  std::string program_;  // what was started
  int socket_ = -1;
  const std::atomic<bool>* interrupt_ = nullptr;
  int64_t memory_ = 0;  // WorkerSpec::memory
  Hello hello_;
};

}  // namespace plumbline::fuzz
