// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// Finds for each row the first column with the largest logit; 0 without a vocabulary. Logits are summed
// in double, hidden dimensions in ascending order, so the result is the same on every machine. A NaN is
// never the largest.
std::vector<int64_t> Argmaxes(const OwnedProblem& problem);
// The same for the least logit.
std::vector<int64_t> Argmins(const OwnedProblem& problem);

}  // namespace plumbline::fuzz
