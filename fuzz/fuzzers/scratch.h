// SPDX-License-Identifier: Apache-2.0
//
// A folder of this process alone, gone with it, for readers that want a file and not its bytes.

#ifndef PLUMBLINE_FUZZ_FUZZERS_SCRATCH_H_
#define PLUMBLINE_FUZZ_FUZZERS_SCRATCH_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace plumbline::fuzz {

// Writes the file, over what was there, and returns its path. In memory, where the machine has such a
// folder: thousands of times a second.
std::filesystem::path WriteScratch(const std::string& name, std::span<const std::byte> bytes);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_FUZZERS_SCRATCH_H_
