// SPDX-License-Identifier: Apache-2.0
//
// Sound inputs for the seeds of libFuzzer and for the tests. The functions throw std::runtime_error if
// this tree can no longer make one.

#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace plumbline::fuzz {

// Writes a campaign's journal into this folder, with a line of every kind.
void WriteSpecimenJournal(const std::filesystem::path& folder);

// Returns a case file in the form without tensors, small enough for the fuzzers' limits.
std::vector<std::byte> SpecimenWithoutTensors();

// Returns a dump with everything that a dump may have and a case has not: outputs, one in fp64,
// padding, another engine's logprobs, boundaries of shards.
std::vector<std::byte> SpecimenDump();

}  // namespace plumbline::fuzz
