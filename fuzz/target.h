// SPDX-License-Identifier: Apache-2.0
//
// A target: an implementation under test, ours or foreign, always behind the C ABI of target_abi.h.
//
// Names: "host", "host-hopper", "mutant:NAME", "hopper-mutant:NAME", "plugin:PATH.so".

#ifndef PLUMBLINE_FUZZ_TARGET_H_
#define PLUMBLINE_FUZZ_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/description.h"
#include "fuzz/target_abi.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

enum class RunStatus : uint8_t { kOk, kUnsupported, kInvalid, kFailed };

struct RunOutcome {
  RunStatus status = RunStatus::kOk;
  std::string message;  // the target's own words where status is not kOk
};

class Target {
 public:
  // On failure returns null and says why (unknown name and the names there are, dlopen's own words, an
  // ABI version, a description that does not validate).
  static std::unique_ptr<Target> Load(std::string_view name, std::string* error);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string& name() const { return name_; }  // as it was given to Load
  const Description& description() const { return description_; }
  // What the target says of itself, in its own words: the JSON that description() was parsed from.
  std::string_view description_text() const { return table_->describe(); }

  // The interface itself, for what goes beyond one call: forward and backward apart.
  const plumbline_target_v1& table() const { return *table_; }

  // In this process, on this thread. A target that crashes takes the process with it: campaigns run
  // this in a worker.
  RunOutcome Run(const kernel::Problem& problem, const kernel::Results& results) const;

 private:
  Target() = default;
  std::string name_;
  Description description_;
  const plumbline_target_v1* table_ = nullptr;
  void* library_ = nullptr;
};

struct BuiltIn {
  std::string name;  // "host", "mutant:tail-unmasked"
  std::string what;  // one line; a mutant's names the real bug it is modelled on
};
std::vector<BuiltIn> BuiltInTargets();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGET_H_
