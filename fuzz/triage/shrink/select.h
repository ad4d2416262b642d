// SPDX-License-Identifier: Apache-2.0
//
// Selects parts of a problem: some rows, some vocabulary entries, some hidden columns. It also ranks
// them by how likely the finding depends on them.

#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

enum class Axis : uint8_t { kRows, kVocab, kHidden };
inline constexpr Axis kAxes[] = {Axis::kRows, Axis::kVocab, Axis::kHidden};

int64_t Extent(const OwnedProblem& problem, Axis axis);

// Returns the problem with only these indices, ascending, at least one. A label whose vocabulary entry
// is removed moves to the next entry that stays, or to the last; ignored and invalid labels keep their
// value.
OwnedProblem Keep(const OwnedProblem& problem, Axis axis, const std::vector<int64_t>& indices);
Focus Follow(const Focus& focus, Axis axis, const std::vector<int64_t>& indices);

// Returns all indices of the axis, the ones most likely needed first: the focus, labels, the largest
// and the smallest logit, both ends, then by logit (vocabulary) or by the largest product (hidden).
std::vector<int64_t> ByImportance(const OwnedProblem& problem, Axis axis, const Focus& focus);

}  // namespace plumbline::fuzz
