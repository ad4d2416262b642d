// SPDX-License-Identifier: Apache-2.0
//
// Runs a target on rows of a dump in its own process, which is this program started again: a crash is
// an outcome to report, not the end of plumb. Nothing large is sent between the two: the child opens
// the dump itself, chooses the same rows, and lets the target write into memory that both share.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "fuzz/base/child_process.h"
#include "fuzz/base/exit_status.h"
#include "fuzz/check/sample.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct DumpRunSpec {
  std::string target;
  std::filesystem::path dump;
  int64_t rows = 0;  // the count of ChooseRows
  uint64_t seed = 0;
  std::optional<int64_t> vocabulary;  // of OpenDump
  std::filesystem::path program = "/proc/self/exe";
  std::chrono::milliseconds deadline{600'000};
};

class DumpRun {
 public:
  enum class Kind : uint8_t {
    kRan,
    kRefused,      // by what the target declares or by its own answer; `what` says which
    kFailed,       // the target answered that it failed
    kDied,         // the process ended, with the last line that it printed
    kTimedOut,     // the deadline passed; the process was killed
    kInterrupted,  // the interrupt flag was seen; the process was killed
    kUnavailable,  // the target does not load
    kFault,        // the harness failed: no memory, no process
  };

  // Waits for the target. `sample` must be that of spec's dump, rows and seed.
  DumpRun(const DumpRunSpec& spec, const DumpSample& sample, const std::atomic<bool>* interrupt);
  ~DumpRun();
  DumpRun(const DumpRun&) = delete;
  DumpRun& operator=(const DumpRun&) = delete;

  Kind kind() const { return kind_; }
  const std::string& what() const { return what_; }
  // Return the target's outputs and its description, if kind is kRan.
  const kernel::Results& results() const { return results_; }
  const Description& description() const { return description_; }

 private:
  // Maps memory_ of size_ bytes. Returns its descriptor, or -1; memory_ is null, with the reason in
  // what_, if there is none.
  int Share();
  void Conclude(const ChildProcess& child);

  Kind kind_ = Kind::kFault;
  std::string what_;
  kernel::Results results_;
  Description description_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

// Runs in the child, with the shared memory on kSharedDescriptor. Returns the process's exit status.
ExitStatus ServeDumpRun(const DumpRunSpec& spec, pid_t supervisor);

}  // namespace plumbline::fuzz
