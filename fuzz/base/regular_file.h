// SPDX-License-Identifier: Apache-2.0
//
// Files from strangers: a path may name a pipe that never ends, a device, a folder or a loop of links.
// Only a regular file is opened, and opening never waits.

#ifndef PLUMBLINE_FUZZ_BASE_REGULAR_FILE_H_
#define PLUMBLINE_FUZZ_BASE_REGULAR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace plumbline::fuzz {

// A descriptor, the caller's to close; -1, with "PATH: why", where there is none. `flags` as for
// open(2); O_CLOEXEC is added.
int OpenRegular(const std::filesystem::path& path, int flags, std::string* error);

// The whole of a regular file of at most so many bytes; the error names the path.
std::optional<std::string> ReadRegular(const std::filesystem::path& path, uint64_t most,
                                       std::string* error);

// Writes to a temporary name beside it, syncs, then renames: a reader never sees half a file. False,
// with a reason that names the path; nothing is left behind then.
bool WriteWhole(const std::filesystem::path& path, std::span<const std::byte> bytes,
                std::string* error);

// Removes what a process left in this folder that died inside WriteWhole: "NAME.PID-NUMBER.tmp". Only
// where no other process writes there.
void RemoveTemporaries(const std::filesystem::path& folder);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_REGULAR_FILE_H_
