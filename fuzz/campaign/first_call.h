// SPDX-License-Identifier: Apache-2.0
//
// The time of a target's first call of a new kind, which decides whether its campaign has a palette of
// calls (fuzz/campaign/search/palette.h).

#pragma once

#include "fuzz/target/description.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

// From this long on a first call is taken for a compilation.
inline constexpr double kSlowFirstCall = 0.05;

struct FirstCall {
  double seconds = 0;
  bool by_class = false;  // a new shape of the same class takes no longer: Palette
};

// Runs a small case in each of four shapes, twice, and measures by how many seconds the first of two
// took longer: the second largest of the three later ones. The very first call of a process also loads
// libraries, and one long first call may be an accident. Some targets compile for each shape. Others,
// such as Triton's, compile for classes of extents, which the last two shapes change, and the second
// does not. Returns 0 seconds if a case dies, or none is judged. The runner must run cases in their own
// shape alone (WorkerSpec::first_call).
FirstCall MeasureFirstCall(CaseRunner* runner, const Capabilities& can);

}  // namespace plumbline::fuzz
