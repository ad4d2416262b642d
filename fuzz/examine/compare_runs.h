// SPDX-License-Identifier: Apache-2.0
//
// What a target wrote, compared bit for bit with what it wrote another time.

#ifndef PLUMBLINE_FUZZ_EXAMINE_COMPARE_RUNS_H_
#define PLUMBLINE_FUZZ_EXAMINE_COMPARE_RUNS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// Two runs on one problem, the first over poison 0 and the second over poison 1. One finding an output
// at most, for its first element that differs; where the target is not deterministic, only for one that
// neither has written.
void CompareRuns(const OwnedProblem& problem, const OutputBits& first, const OutputBits& second,
                 bool deterministic, std::vector<Finding>* findings);

// Row `row` of a batch against the same row alone, whose problem asked for no grad_weight; the first
// element that differs.
std::optional<Finding> CompareRow(const OwnedProblem& problem, const OutputBits& batch,
                                  const OutputBits& alone, int64_t row);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_EXAMINE_COMPARE_RUNS_H_
