// SPDX-License-Identifier: Apache-2.0

#ifndef PLUMBLINE_FUZZ_RECIPE_EXPAND_ARGMAX_H_
#define PLUMBLINE_FUZZ_RECIPE_EXPAND_ARGMAX_H_

#include <cstdint>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// For each row the first column of the largest logit; 0 without a vocabulary. Logits in double, hidden
// dimensions in ascending order, so the same on every machine; a NaN is never the largest.
std::vector<int64_t> Argmaxes(const OwnedProblem& problem);
// ... of the least logit.
std::vector<int64_t> Argmins(const OwnedProblem& problem);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_RECIPE_EXPAND_ARGMAX_H_
