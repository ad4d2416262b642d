// SPDX-License-Identifier: Apache-2.0
//
// Whether a folder has room for what a campaign still has to write.

#ifndef PLUMBLINE_FUZZ_BASE_DISK_SPACE_H_
#define PLUMBLINE_FUZZ_BASE_DISK_SPACE_H_

#include <cstdint>
#include <filesystem>
#include <string>

namespace plumbline::fuzz {

// Empty where at least `least` bytes are free in `folder`, or where its file system does not say; else
// a sentence that names folder and bytes. What is free for this user counts, not for root.
std::string DiskShortage(const std::filesystem::path& folder, int64_t least);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_DISK_SPACE_H_
