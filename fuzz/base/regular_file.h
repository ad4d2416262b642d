// SPDX-License-Identifier: Apache-2.0
//
// Access to files that the harness did not write. A path may name a pipe that never ends, a device, a
// folder or a loop of links. Only a regular file is opened, and opening never waits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace plumbline::fuzz {

// Returns a descriptor that the caller closes; -1, with "PATH: why", on failure. `flags` are as for
// open(2); O_CLOEXEC is added.
int OpenRegular(const std::filesystem::path& path, int flags, std::string* error);

// Reads the whole of a regular file of at most `most` bytes. The error names the path.
std::optional<std::string> ReadRegular(const std::filesystem::path& path, uint64_t most,
                                       std::string* error);

// Writes to a temporary name beside it, syncs, then renames: a reader never sees half a file. On
// failure returns false with a reason that names the path, and leaves nothing behind.
bool WriteWhole(const std::filesystem::path& path, std::span<const std::byte> bytes,
                std::string* error);

// Removes the files "NAME.PID-NUMBER.tmp" that a process left in this folder when it died inside
// WriteWhole. Call it only where no other process writes.
void RemoveTemporaries(const std::filesystem::path& folder);

}  // namespace plumbline::fuzz
