// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes that make a problem smaller: fewer rows, vocabulary entries, hidden columns.
//
// There are three ways, because none is enough alone. KeepFew tries a few indices that look important,
// from one up: a defect that needs little is small at once. KeepResidues tries the extent's residues
// modulo usual tile sizes: a defect of the ragged tail needs the remainder, not the size. DeleteChunks
// is delta debugging (Zeller and Hildebrandt 2002, with chunks that gallop).
//
// No axis is emptied: kernels treat an extent of 0 as a special case, and many refuse it. A problem of
// one row, one entry and one column is the smallest that still says something about larger ones.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_DELETE_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_DELETE_H_

#include <cstdint>

#include "fuzz/triage/shrink/select.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// Reduces all three axes at once: to one or two rows, a few vocabulary entries and columns, smallest
// first, also with the hidden dimension folded. It comes first because a few dozen tries can turn 10^5
// values into tens in one step. Returns true if the best problem changed, as all passes do.
bool KeepCorner(ShrinkSession& session);
// Does the same with another problem that has the extents of the best one.
bool KeepCornerOf(ShrinkSession& session, const OwnedProblem& problem);

bool KeepFew(ShrinkSession& session, Axis axis);
bool KeepResidues(ShrinkSession& session, Axis axis);

// Halves the chunk from half the extent down to `smallest`.
bool DeleteChunks(ShrinkSession& session, Axis axis, int64_t smallest);

// Keeps one row: tries the most important ones of a batch, each alone.
bool KeepOneRow(ShrinkSession& session);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_DELETE_H_
