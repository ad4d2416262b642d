// SPDX-License-Identifier: Apache-2.0
//
// A target: an implementation under test, ours or foreign, always behind the C ABI of target_abi.h.
//
// Names: "host", "host-hopper", "cuda", "cuda-portable", "cuda-simt",
// "cuda-forward-backward", "mutant:NAME", "hopper-mutant:NAME", "cuda-mutant:NAME", "plugin:PATH.so".

#ifndef PLUMBLINE_FUZZ_TARGET_TARGET_H_
#define PLUMBLINE_FUZZ_TARGET_TARGET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target/description.h"
#include "fuzz/target/device.h"
#include "fuzz/target_abi.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

enum class RunStatus : uint8_t { kOk, kUnsupported, kInvalid, kFailed };

struct RunOutcome {
  RunStatus status = RunStatus::kOk;
  std::string message;  // the target's own words where status is not kOk
};

// The device for targets that describe themselves as "cuda"; null, with the reason, where there is
// none.
using OpenDevice = Device* (*)(std::string* error);

class Target {
 public:
  // On failure returns null and says why (unknown name and the names there are, dlopen's own words, an
  // ABI version, a description that does not validate, a device that is not there). `open` is called
  // for a target on a device alone; null stands for CudaDevice.
  static std::unique_ptr<Target> Load(std::string_view name, std::string* error,
                                      OpenDevice open = nullptr);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string& name() const { return name_; }  // as it was given to Load
  const Description& description() const { return description_; }
  // What the target says of itself, in its own words: the JSON that description() was parsed from.
  std::string_view description_text() const { return table_->describe(); }

  // The interface itself, for what goes beyond one call: forward and backward apart.
  const plumbline_target_v1& table() const { return *table_; }

  // Where what it is given must lie, and in which order it works; null: host memory. The one that Load
  // was given, which outlives this.
  Device* device() const { return device_; }

  // In this process, on this thread. A target that crashes takes the process with it: campaigns run
  // this in a worker. On a device all tensors lie there (fuzz/examine/device_run.h), and on return the
  // work may be under way.
  RunOutcome Run(const kernel::Problem& problem, const kernel::Results& results) const;

  // The same in two, with workspace and saved state of the caller; only where split().
  bool split() const { return table_->sizes != nullptr; }
  RunOutcome Sizes(const kernel::Problem& problem, size_t* workspace, size_t* saved) const;
  RunOutcome Forward(const kernel::Problem& problem, const kernel::Results& results, void* workspace,
                     void* saved) const;
  RunOutcome Backward(const kernel::Problem& problem, const kernel::Results& results, void* workspace,
                      const void* saved) const;

 private:
  Target() = default;
  std::string name_;
  Description description_;
  const plumbline_target_v1* table_ = nullptr;
  void* library_ = nullptr;
  Device* device_ = nullptr;
};

// "cuda+cuda-portable": built-in targets that are examined together (fuzz/examine/examine.h), or one of
// any kind. Null pointers never; empty, with the reason, where one does not load or their descriptions
// differ in more than the name.
std::vector<std::unique_ptr<Target>> LoadTogether(std::string_view names, std::string* error);

struct BuiltIn {
  std::string name;           // "host", "mutant:tail-unmasked"
  std::string what;           // one line; a mutant's names the real bug it is modelled on
  bool deterministic = true;  // false: a mutant whose defect is a race
  bool on_device = false;
};
std::vector<BuiltIn> BuiltInTargets();

// How many workers at the same time, where nobody says: one a hardware thread, but four where a target
// is on a device, as its description says, and CUDA_MPS_PIPE_DIRECTORY is not set:
// fuzz/campaign/README.md, "Targets on a device", has the measurement.
int DefaultJobs(bool on_device);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGET_TARGET_H_
