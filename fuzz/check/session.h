// SPDX-License-Identifier: Apache-2.0
//
// `plumb check` of one dump, without printing. Outputs in the dump are judged as they are. A dump
// without outputs is given to a target, whose outputs are judged.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/json.h"
#include "fuzz/check/dump.h"
#include "fuzz/check/judge.h"
#include "fuzz/check/keep_case.h"
#include "fuzz/check/run.h"
#include "fuzz/check/sample.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct CheckOptions {
  bool run = false;      // run the target even if a dump holds outputs
  std::string contract;  // a named contract, or a description in JSON, whose contract is used instead
  int64_t rows = 64;     // 0: all
  uint64_t seed = 1;
  bool deep = false;                  // as in HonestErrorOptions
  std::optional<int64_t> vocabulary;  // goes before a dump's vocabulary_size
  int threads = 2;
  std::chrono::milliseconds arbiter_time{10'000};
  std::chrono::milliseconds timeout{600'000};  // for the target's run
  std::filesystem::path out;  // the folder for a small case of a target that was run and fails
  std::filesystem::path program = "/proc/self/exe";  // as in DumpRunSpec and WorkerSpec
};

struct Checked {
  ExitStatus status = ExitStatus::kClean;
  std::string complaint;  // for stderr; may be empty
  std::string text;       // for a person; may be empty
  int64_t findings = 0;
  Json json;  // null: nothing was judged
};

class CheckSession {
 public:
  // `target` may be empty: recorded outputs are then judged as a black box's, and a dump without
  // outputs is run on `host`. Options and interrupt must outlive this.
  CheckSession(const CheckOptions& options, std::string target, const std::atomic<bool>& interrupt)
      : options_(options), target_(std::move(target)), interrupt_(interrupt) {}

  // Called once.
  Checked Check(const std::filesystem::path& path);
  // Shrinks and stores a case, if a folder for it was given and the target was run and is wrong;
  // nullopt otherwise.
  std::optional<DumpCase> Keep() const;

 private:
  void CheckRun();  // of the target, on the dump's inputs
  // Explains a target that did not return results.
  void Explain(const DumpRun& run);
  // Sets the contract to that of --contract, else to the target's, else to the black box's. Returns
  // false if there is none; `checked_` then says why.
  bool ReadContract();
  void Judge(const kernel::Results& results, bool ran);
  bool Fail(ExitStatus status, std::string complaint);  // returns false

  const CheckOptions& options_;
  std::string target_;
  const std::atomic<bool>& interrupt_;
  std::unique_ptr<Dump> dump_;
  std::unique_ptr<DumpSample> sample_;
  std::string contract_name_;
  Description description_;           // whose contract holds
  std::optional<DumpVerdict> wrong_;  // of a target that was run and is wrong or suspect
  Checked checked_;
};

}  // namespace plumbline::fuzz
