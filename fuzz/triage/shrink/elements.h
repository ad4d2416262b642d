// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes on single values, and on all values of the same magnitude together: if a defect needs
// two values to be equal, or opposite, no single one of them can change.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_ELEMENTS_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_ELEMENTS_H_

#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// Simplifies over hidden and weight together, then tensor by tensor.
bool SimplifyDuplicates(ShrinkSession& session);

// Changes two elements of a tensor and keeps their sum: if a defect needs the sum, neither can change
// alone.
bool RedistributePairs(ShrinkSession& session);

// Simplifies every element, those of high rank first.
bool SimplifyElements(ShrinkSession& session);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_ELEMENTS_H_
