// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes on what is not a shape or a value: layout, outputs asked for, reduction, temperature,
// upstream gradients, dtypes. Each option goes to its default on its own, after all of them at once.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_OPTIONS_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_OPTIONS_H_

#include <optional>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

bool SimplifyOptions(ShrinkSession& session);

// hidden and weight in another dtype; with `exact`, nullopt where a value would change. A finite value
// never becomes infinite.
std::optional<OwnedProblem> Convert(const OwnedProblem& problem, kernel::DType dtype, bool exact);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_OPTIONS_H_
