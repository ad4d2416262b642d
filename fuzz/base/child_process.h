// SPDX-License-Identifier: Apache-2.0
//
// Starts this program again as a child, for work that may crash or hang. The child has a process group
// of its own for two reasons. Ctrl-C must reach the supervisor alone: in the child it would look like a
// crash of the target. And killing the group also kills the children that a target started.

#ifndef PLUMBLINE_FUZZ_BASE_CHILD_PROCESS_H_
#define PLUMBLINE_FUZZ_BASE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// Starts `program` with empty standard input, its output and errors going to `log`, and descriptor
// `from` visible as descriptor `to`. Signals are as in a fresh process. Returns -1, with the reason in
// *error, if it could not be started.
pid_t SpawnApart(const std::filesystem::path& program, std::vector<std::string> words, int log,
                 int from, int to, std::string* error);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_CHILD_PROCESS_H_
