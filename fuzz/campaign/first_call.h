// SPDX-License-Identifier: Apache-2.0
//
// The time of a target's first call of a new shape, which decides whether its campaign has a palette of
// shapes (fuzz/campaign/search/palette.h).

#pragma once

#include "fuzz/target/description.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

// From this long on a first call is taken for a compilation.
inline constexpr double kSlowFirstCall = 0.05;

// Runs a small case in each of three shapes, twice, and returns by how many seconds the first of two
// took longer: the least of the two later shapes, since the very first call of a process also loads
// libraries. Returns 0 if a case dies, or none is judged. The runner must run cases in their
// own shape alone (WorkerSpec::first_call).
double FirstCallSeconds(CaseRunner* runner, const Capabilities& can);

}  // namespace plumbline::fuzz
