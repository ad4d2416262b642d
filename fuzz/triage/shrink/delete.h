// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes that make a problem smaller: fewer rows, vocabulary entries, hidden columns.
//
// Three ways, because no one of them is enough: a few indices that look important, from one up
// (KeepFew: a bug that needs little is small at once); the extent's residues modulo usual tile sizes
// (KeepResidues: a bug of the ragged tail needs the remainder, not the size); and delta debugging
// (DeleteChunks: Zeller and Hildebrandt 2002, with chunks that gallop).
//
// No axis is emptied: kernels treat an extent of 0 as a case of its own, and many refuse it, so a
// problem of one row, one entry and one column is the smallest that still says something about the
// others.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_DELETE_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_DELETE_H_

#include <cstdint>

#include "fuzz/triage/shrink/select.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// All three axes at once: one or two rows, a few vocabulary entries and columns, smallest first, also
// with the hidden dimension folded away. Worth a few dozen tries before anything else: it turns 10^5
// values into tens in one step. True if the best problem changed, as for all passes.
bool KeepCorner(ShrinkSession& session);
// The same of another problem with the extents of the best one.
bool KeepCornerOf(ShrinkSession& session, const OwnedProblem& problem);

bool KeepFew(ShrinkSession& session, Axis axis);
bool KeepResidues(ShrinkSession& session, Axis axis);

// Halves the chunk from half the extent down to `smallest`.
bool DeleteChunks(ShrinkSession& session, Axis axis, int64_t smallest);

// One row: the most important ones of a batch, each alone.
bool KeepOneRow(ShrinkSession& session);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_DELETE_H_
