// SPDX-License-Identifier: Apache-2.0
//
// The child's side: loads one target and judges one case after another, until the supervisor closes the
// socket. Everything that may crash or hang because of a target happens here and nowhere else.

#ifndef PLUMBLINE_FUZZ_WORKER_WORKER_H_
#define PLUMBLINE_FUZZ_WORKER_WORKER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace plumbline::fuzz {

// The fault of a case for which there was no memory, though its target kept none. It may be what
// earlier cases left behind: a worker of its own may have enough.
inline constexpr std::string_view kOutOfMemory = "out of memory while examining the case";
// The `output` of the finding where it is the target that kept it.
inline constexpr std::string_view kMemory = "memory";

// Serves `socket` and returns the exit status: 0 when the supervisor is done, kWorkerUnavailable where
// the target does not load, 3 where the machine or the protocol is at fault. `supervisor`: the process
// whose death ends this one. `memory`: WorkerSpec::memory.
int RunWorker(const std::string& target_name, pid_t supervisor, int socket, int64_t memory);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_WORKER_WORKER_H_
