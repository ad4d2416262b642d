// SPDX-License-Identifier: Apache-2.0
//
// Checks that a folder has room for what a campaign still has to write.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace plumbline::fuzz {

// Returns an empty text if at least `least` bytes are free in `folder`, or if its file system does not
// say; else a sentence that names folder and bytes. Counted is what is free for this user, not for
// root.
std::string DiskShortage(const std::filesystem::path& folder, int64_t least);

}  // namespace plumbline::fuzz
