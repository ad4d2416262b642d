// SPDX-License-Identifier: Apache-2.0
//
// The worker's side: it loads one target and judges one case after another, until the supervisor closes
// the socket. Only this process can crash or hang because of a target.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/base/exit_status.h"

namespace plumbline::fuzz {

// The fault of a case for which there was no memory, though its target kept none. Earlier cases may
// have left too little: a fresh worker may have enough.
inline constexpr std::string_view kOutOfMemory = "out of memory while examining the case";
// The `output` of the finding if the target kept the memory.
inline constexpr std::string_view kMemoryOutput = "memory";

// Serves the socket kSharedDescriptor and returns the exit status: kClean when the supervisor is done,
// kUnavailable if the target does not load (the Hello says why), kFault if the machine or the protocol
// is at fault. `supervisor` is the process whose death ends this one.
struct WorkerOptions {
  std::string target;
  pid_t supervisor = 0;
  int64_t memory = 0;  // as in WorkerSpec, these three
  bool production = false, same_shape = false;
};
ExitStatus RunWorker(const WorkerOptions& options);

}  // namespace plumbline::fuzz
