// SPDX-License-Identifier: Apache-2.0
//
// Compares the outputs of two runs of a target bit for bit.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// Compares two runs on one problem, the first over poison 0 and the second over poison 1. Adds at most
// one finding an output, for its first element that differs. If the target is not deterministic, only
// an element that neither run has written is a finding.
void CompareRuns(const OwnedProblem& problem, const OutputBits& first, const OutputBits& second,
                 bool deterministic, std::vector<Finding>* findings);

// Compares row `row` of a batch with the same row of a part of it, where it is row `at`. The part's
// problem asked for no grad_weight. Returns a finding for the first element that differs.
std::optional<Finding> CompareRow(const OwnedProblem& problem, const OutputBits& batch,
                                  const OutputBits& part, int64_t row, int64_t at);

}  // namespace plumbline::fuzz
