// SPDX-License-Identifier: Apache-2.0
//
// A folder of this process alone, removed at its end, for readers that need a file and not its bytes.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace plumbline::fuzz {

// Writes the file, over an existing one, and returns its path. The folder is in memory if the machine
// has such a folder, because this runs thousands of times a second.
std::filesystem::path WriteScratch(const std::string& name, std::span<const std::byte> bytes);

}  // namespace plumbline::fuzz
