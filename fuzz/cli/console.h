// SPDX-License-Identifier: Apache-2.0
//
// How a command prints, for a person or as one JSON object, and how it ends.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/json.h"
#include "fuzz/examine/result.h"

namespace plumbline::fuzz {

// The numbers of the last line. `judged`: the cases whose verdict is pass, fail or suspect.
struct Counts {
  int64_t cases = 0, judged = 0, findings = 0;

  // Counts one case. One that fails counts as one finding, whatever it shows.
  void Add(const CaseResult& result);
};

// Common to all commands: where output goes, how the program was called, and the flag that a signal
// sets.
struct Console {
  std::string program = "plumb";
  bool json = false;                   // one JSON object as the last line of stdout, the rest to stderr
  const std::atomic<bool>* interrupt;  // never null
  std::filesystem::path worker_program = "/proc/self/exe";

  std::FILE* human() const { return json ? stderr : stdout; }
  void Say(std::string_view text) const;       // prints the text unchanged, flushed
  void Complain(std::string_view text) const;  // "plumb: TEXT" on stderr
  // Every command ends with this: it prints the verdict line, or `result` with verdict, status, cases,
  // judged and findings added.
  ExitStatus Finish(ExitStatus status, const Counts& counts = {}, Json result = {}) const;
};

}  // namespace plumbline::fuzz
