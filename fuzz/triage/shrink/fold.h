// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes that move values from one tensor to another and leave the logits as they are (but for
// rounding to the dtype, which the predicate judges): most defects are about logits and do not care
// which dot product gave them.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_FOLD_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_FOLD_H_

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// The problem with one hidden column a row: hidden becomes the identity, column i of weight the logits
// of row i. Needs at least one row.
OwnedProblem FoldHidden(const OwnedProblem& problem);

// FoldHidden where that makes the problem simpler.
bool Fold(ShrinkSession& session);

// Powers of two move between hidden and weight, column by column, and from the temperature into hidden.
bool Rescale(ShrinkSession& session);

// The same number is taken from every element of a column of weight.
bool ShiftColumns(ShrinkSession& session);

// Labels go to 0: as they are, or with their vocabulary entry, which changes places with entry 0.
bool LowerLabels(ShrinkSession& session);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_FOLD_H_
