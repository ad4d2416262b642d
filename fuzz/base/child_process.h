// SPDX-License-Identifier: Apache-2.0
//
// How this program starts itself again for what may crash or hang. The child is in a process group of
// its own: Ctrl-C must reach the supervisor alone, or it would look like a crash of the target; and
// killing the group takes a target's own children along.

#ifndef PLUMBLINE_FUZZ_BASE_CHILD_PROCESS_H_
#define PLUMBLINE_FUZZ_BASE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// Standard input is empty, output and errors go to `log`; `from` is seen as descriptor `to`. Signals
// are as in a fresh process. -1, with the reason in *error, where it could not be started.
pid_t SpawnApart(const std::filesystem::path& program, std::vector<std::string> words, int log,
                 int from, int to, std::string* error);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_CHILD_PROCESS_H_
