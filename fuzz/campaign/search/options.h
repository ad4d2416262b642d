// SPDX-License-Identifier: Apache-2.0
//
// The options that decide what each case of a campaign is. A resumed campaign keeps them.

#pragma once

#include <cstdint>
#include <string>

#include "fuzz/base/units.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// In generations (fuzz/campaign/search/plan.h).
inline constexpr int64_t kLeastLag = 2, kMostLag = 64;

struct CaseOptions {
  uint64_t seed = 0;
  std::string regime;  // empty: all of them in turn
  std::string recipe;  // not empty: this one case on each target, whatever the budget
  Shard shard;
  bool blind = false;  // draws alone: no level one, and no use of earlier results
  // Cases of production size, placed on the device (fuzz/gpu/production/). There is no level one, no
  // corpus and no use of earlier results.
  bool production = false;
  // No case depends on the results of others: nothing is guided (fuzz/campaign/GATE.md).
  bool gate = false;

  // Guided cases are drawn from results that are this many generations old. The more of them, the fewer
  // steps a search takes one upon another, and the longer a case may take for which no job waits.
  int64_t lag = kLeastLag;

  // The most elements that a recipe may have.
  int64_t MaxElements() const { return production ? kMaxDeviceElements : kMaxElements; }
};

}  // namespace plumbline::fuzz
