// SPDX-License-Identifier: Apache-2.0
//
// The shortcuts that may explain a target's errors.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/baseline/family.h"
#include "oracle/budget/inputs.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// Chunks of 16-bit accumulators are tried as powers of two from one to the other.
inline constexpr int64_t kSmallestChunk = 16, kLargestChunk = 32'768;

struct Candidate {
  std::string what;  // in words
  std::function<void(Shortcuts*)> apply;
  bool of_temperature = false;  // does nothing, or the same as another, where T is a power of two
  bool is_form = false;         // changes no exact value
  // Changes this output alone, and is tried where that is suspect.
  std::optional<oracle::Output> only = {};
};

// "grad_hidden accumulated in bf16 every 256 columns, each part rounded first".
std::string AccumulatorWords(oracle::Output output, std::string_view dtype, const Accumulator& sum);

// Roundings, then accumulators of 16 bits in chunks that kernels have, then forms.
std::vector<Candidate> CandidatesFor(const oracle::Inputs& inputs);

}  // namespace plumbline::fuzz
