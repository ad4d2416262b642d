// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes that move values from one tensor to another and keep the logits (except for rounding
// to the dtype, which the predicate judges). Most defects depend on logits, not on the dot product that
// gave them.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_FOLD_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_FOLD_H_

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// Returns the problem with one hidden column a row: hidden becomes the identity, column i of weight the
// logits of row i. It must have at least one row.
OwnedProblem FoldHidden(const OwnedProblem& problem);

// Applies FoldHidden if that makes the problem simpler.
bool Fold(ShrinkSession& session);

// Moves powers of two between hidden and weight, column by column, and from the temperature into
// hidden.
bool Rescale(ShrinkSession& session);

// Subtracts the same number from every element of a column of weight.
bool ShiftColumns(ShrinkSession& session);

// Lowers labels to 0: alone, or with their vocabulary entry, which changes places with entry 0.
bool LowerLabels(ShrinkSession& session);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_FOLD_H_
