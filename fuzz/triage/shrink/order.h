// SPDX-License-Identifier: Apache-2.0
//
// The shrinker's order of simplicity: a total preorder on problems, compared by
//   1. the number of values, and kValuesPerOption more for each option away from its default (Cost),
//   2. those options alone (OptionsScore),
//   3. the sum of the ranks of all values (RankSum).
// Only a strictly simpler problem is ever accepted, so shrinking ends and has no cycles.
//
// Options have a price and are not compared first: an error of the last bit may show at V = 2 in fp32
// gradients, and only at V = 264 in the simpler bf16 ones, after a second rounding.
//
// Ranks of floats follow Hypothesis' order of simplicity: 0, 1, -1, small integers and powers of two,
// then more significant bits and larger exponents; subnormals, infinities and NaN last.

#pragma once

#include <cstdint>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// Returns 0 for the simplest float, +0.
uint32_t FloatRank(float value);

// Returns 0 for label 0; an ignored row comes just after it.
uint64_t LabelRank(int64_t label, int64_t ignore_index);

// Returns 0 for bf16, contiguous, vocab-major, int64 labels, no temperature, no upstream gradient,
// reduction none and logprob as the only output. Each departure adds 1 or 2.
int64_t OptionsScore(const OwnedProblem& problem);

inline constexpr int64_t kValuesPerOption = 16;
int64_t Cost(const OwnedProblem& problem);

uint64_t RankSum(const OwnedProblem& problem);

}  // namespace plumbline::fuzz
