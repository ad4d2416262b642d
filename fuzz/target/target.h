// SPDX-License-Identifier: Apache-2.0
//
// A target: an implementation under test. This project's and any other are both called through the C
// ABI of target_abi.h. fuzz/target/catalogue.h has the names that a command line takes.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target/description.h"
#include "fuzz/target/interface/device.h"
#include "fuzz/target_abi.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

enum class RunStatus : uint8_t { kOk, kUnsupported, kInvalid, kFailed };

struct RunOutcome {
  RunStatus status = RunStatus::kOk;
  std::string message;  // the target's own words where status is not kOk
  // One word that tells this failure from others, where status is kInvalid or kFailed: the status's
  // name, "failed", "invalid", "no-status" or "threw", or the target's own word, which has an '@':
  // "ValueError@loss.3fa2c1".
  std::string failure = {};
};

// True of what RunOutcome::failure may be.
bool IsFailureWord(std::string_view text);

// Returns the device for targets that describe themselves as "cuda"; null, with the reason, if there is
// none.
using OpenDevice = Device* (*)(std::string* error);

class Target {
 public:
  // Loads a plug-in: the shared library at `path`, which exports plumbline_target(). On failure returns
  // null and the reason: dlopen's message, an ABI version, a description that does not validate, or a
  // device that is not there. `open` is called only if the target is on a device; null means
  // CudaDevice.
  static std::unique_ptr<Target> Open(std::string_view name, const std::filesystem::path& path,
                                      std::string* error, OpenDevice open = nullptr);
  // Makes a target of a table in this program (fuzz/target/catalogue.h), which must outlive it. Fails
  // as Open does.
  static std::unique_ptr<Target> Adopt(std::string_view name, const plumbline_target_v1* table,
                                       std::string* error, OpenDevice open = nullptr);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // As it was given to Open or Adopt, with the contract behind it that it is held to.
  const std::string& name() const { return name_; }
  const Description& description() const { return description_; }
  // The JSON that description() was parsed from: the target's own words, or those with another
  // contract.
  const std::string& description_text() const { return description_text_; }
  // Holds the target to a contract in the place of its own (fuzz/target/contracts.h). Returns false,
  // with the reason, if there is no such contract.
  bool HoldTo(std::string_view contract, std::string* error);

  // The interface itself, for more than one call: forward and backward apart.
  const plumbline_target_v1& table() const { return *table_; }

  // The device on which tensors given to the target must lie and whose stream orders its work; null
  // means host memory. It is the one that Open or Adopt opened, and outlives this.
  Device* device() const { return device_; }

  // Calls the target in this process, on this thread. A target that crashes takes the process with it,
  // so campaigns call this in a worker. For a target on a device all tensors lie there
  // (fuzz/examine/device_run.h), and on return the work may still be under way.
  RunOutcome Run(const kernel::Problem& problem, const kernel::Results& results) const;

  // The call in two parts, forward and backward, with workspace and saved state of the caller. Sizes,
  // Forward and Backward may be called only if split().
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
  std::string description_text_;
  Description description_;
  const plumbline_target_v1* table_ = nullptr;
  void* library_ = nullptr;
  Device* device_ = nullptr;
};

}  // namespace plumbline::fuzz
