// SPDX-License-Identifier: Apache-2.0
//
// Sound inputs to start from, for the seeds of libFuzzer and for the tests. They throw
// std::runtime_error where this tree can no longer make one.

#ifndef PLUMBLINE_FUZZ_FUZZERS_SPECIMENS_H_
#define PLUMBLINE_FUZZ_FUZZERS_SPECIMENS_H_

#include <cstddef>
#include <filesystem>
#include <vector>

namespace plumbline::fuzz {

// A campaign's journal in this folder, with a line of every kind.
void WriteSpecimenJournal(const std::filesystem::path& folder);

// A case file in the form without tensors, small enough for the fuzzers' limits.
std::vector<std::byte> SpecimenWithoutTensors();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_FUZZERS_SPECIMENS_H_
