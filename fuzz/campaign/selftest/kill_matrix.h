// SPDX-License-Identifier: Apache-2.0
//
// Measures which regimes can kill which mutants: each regime by itself, for up to a number of cases,
// without shrinking. The text marks a regime that kills nothing, and a mutant that only one regime
// kills.

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/base/json.h"

namespace plumbline::fuzz {

struct MatrixRow {
  std::string target;
  std::vector<int64_t> killed_after;  // for each of Regimes(): cases, the killing one included; 0: none
  std::string trouble;                // the target does not load, or the harness contradicted itself
};

// Tries the first `cases` recipes of every regime on one target. A regime that the interrupt cuts short
// has 0.
MatrixRow TryRegimes(const std::string& target, uint64_t seed, int64_t cases,
                     const std::filesystem::path& program, const std::atomic<bool>& interrupt);

// Prints a line for each target and a column for each regime under its number; numbers and names follow
// below. "." marks a regime that does not kill.
std::string MatrixText(const std::vector<MatrixRow>& rows, int64_t cases);

// {"cases": M, "regimes": [names], "mutants": [{"target", "killed_after": {regime: k}}]}
Json MatrixJson(const std::vector<MatrixRow>& rows, int64_t cases);

}  // namespace plumbline::fuzz
