// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes on everything except shapes and values: layout, outputs asked for, reduction,
// temperature, upstream gradients, dtypes. All options are reset to their defaults at once, then each
// by itself.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_OPTIONS_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_OPTIONS_H_

#include <optional>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

bool SimplifyOptions(ShrinkSession& session);

// Converts hidden and weight to another dtype. With `exact` it returns nullopt if a value would change.
// A finite value never becomes infinite.
std::optional<OwnedProblem> Convert(const OwnedProblem& problem, kernel::DType dtype, bool exact);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_OPTIONS_H_
