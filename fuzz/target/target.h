// SPDX-License-Identifier: Apache-2.0
//
// A target: an implementation under test, ours or foreign, always behind the C ABI of target_abi.h.
// fuzz/builtin/catalogue.h has the names that a command line takes.

#ifndef PLUMBLINE_FUZZ_TARGET_TARGET_H_
#define PLUMBLINE_FUZZ_TARGET_TARGET_H_

#include <cstdint>
#include <filesystem>
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
  // A plug-in: the shared library at `path`, which exports plumbline_target(). On failure null, with
  // the reason: dlopen's own words, an ABI version, a description that does not validate, a device that
  // is not there. `open` is called for a target on a device alone; null stands for CudaDevice.
  static std::unique_ptr<Target> Open(std::string_view name, const std::filesystem::path& path,
                                      std::string* error, OpenDevice open = nullptr);
  // A table of this program's own (fuzz/builtin/catalogue.h), which outlives the target. Fails as Open
  // does.
  static std::unique_ptr<Target> Adopt(std::string_view name, const plumbline_target_v1* table,
                                       std::string* error, OpenDevice open = nullptr);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string& name() const { return name_; }  // as it was given to Open or Adopt
  const Description& description() const { return description_; }
  // What the target says of itself, in its own words: the JSON that description() was parsed from.
  std::string_view description_text() const { return table_->describe(); }

  // The interface itself, for what goes beyond one call: forward and backward apart.
  const plumbline_target_v1& table() const { return *table_; }

  // Where what it is given must lie, and in which order it works; null: host memory. The one that Open
  // or Adopt was given, which outlives this.
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
  static std::unique_ptr<Target> Checked(std::unique_ptr<Target> target, std::string* error,
                                         OpenDevice open);
  std::string name_;
  Description description_;
  const plumbline_target_v1* table_ = nullptr;
  void* library_ = nullptr;
  Device* device_ = nullptr;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGET_TARGET_H_
