// SPDX-License-Identifier: Apache-2.0
//
// The second tier of judgement in an examination: outputs within their bounds that err more than honest
// kernels of the same contract do on the same inputs (fuzz/baseline/BASELINES.md). Always suspect.

#pragma once

#include <vector>

#include "fuzz/examine/result.h"

namespace plumbline::fuzz {

struct HonestErrors;  // fuzz/baseline/honest_errors.h, which is not installed

// Adds a finding for each output that is suspect and whose errors are not those of one to three units
// alone (HonestUnits::effective), unless one of `findings` is about its values. It names no element:
// most err. Its tightness is the largest ratio of the tier over that which is suspect. What explains
// the errors of an output names its findings of bounds, too, if nothing has.
void AddMagnitudes(const HonestErrors& errors, std::vector<Finding>* findings);

// What a result holds of the tier. `units`: of every unit as well.
std::vector<HonestRatio> RatiosOf(const HonestErrors& errors, bool units);

}  // namespace plumbline::fuzz
