// SPDX-License-Identifier: Apache-2.0
//
// Numbers computed from a problem that several rooms use.

#ifndef PLUMBLINE_FUZZ_PROBLEM_VALUES_H_
#define PLUMBLINE_FUZZ_PROBLEM_VALUES_H_

#include <cstdint>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// Significant bits of a finite float: 1 for a power of two, 0 for zero.
int SignificantBits(float value);

// The logits hidden[row] . weight^T, in fp64.
std::vector<double> Logits(const OwnedProblem& problem, int64_t row);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_PROBLEM_VALUES_H_
