// SPDX-License-Identifier: Apache-2.0
//
// The shrinker's passes, by the file that has them. A pass tries candidates on the session and returns
// true if the best problem changed.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/select.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// delete.cc makes a problem smaller: fewer rows, vocabulary entries, hidden columns.
//
// There are three ways, because none is enough alone. KeepFew tries a few indices that look important,
// from one up: a defect that needs little is small at once. KeepResidues tries the extent's residues
// modulo usual tile sizes: a defect of the ragged tail needs the remainder, not the size. DeleteChunks
// is delta debugging (Zeller and Hildebrandt 2002, with chunks that gallop).
//
// No axis is emptied: kernels treat an extent of 0 as a special case, and many refuse it. A problem of
// one row, one entry and one column is the smallest that still says something about larger ones.

// Reduces all three axes of `problem` at once: to one or two rows, a few vocabulary entries and
// columns, smallest first, also with the hidden dimension folded. It comes first because a few dozen
// tries can turn 10^5 values into tens in one step. `problem` is the best one, or has its extents.
bool KeepCorner(ShrinkSession& session, const OwnedProblem& problem);
bool KeepFew(ShrinkSession& session, Axis axis);
bool KeepResidues(ShrinkSession& session, Axis axis);
// Halves the chunk from half the extent down to `smallest`.
bool DeleteChunks(ShrinkSession& session, Axis axis, int64_t smallest);
// The smallest chunks and runs of coarse passes have 1/16 of the extent, so a pass costs about 32 tries for
// any size.
inline int64_t Coarse(int64_t extent) { return std::max<int64_t>(1, extent / 16); }
// Keeps one row: tries the most important ones of a batch, each alone.
bool KeepOneRow(ShrinkSession& session);

// shapes.cc is for targets that compile for each shape.

// Reduces the best problem to the smallest of the shapes {N, V, H} in which it still fails.
bool KeepKnownShape(ShrinkSession& session, std::vector<std::array<int64_t, 3>> shapes);
// Makes the problem smaller with at most this many first calls, divided between corners, rows, the
// vocabulary and the hidden dimension.
void SpendFirstCalls(ShrinkSession& session, int64_t first_calls);

// options.cc changes everything except shapes and values: layout, outputs asked for, reduction,
// temperature, upstream gradients, dtypes. All options are reset to their defaults at once, then each
// by itself.
bool SimplifyOptions(ShrinkSession& session);
// Converts hidden and weight to another dtype. With `exact` it returns nullopt if a value would change.
// A finite value never becomes infinite.
std::optional<OwnedProblem> Convert(const OwnedProblem& problem, kernel::DType dtype, bool exact);

// fold.cc moves values from one tensor to another and keeps the logits (except for rounding to the
// dtype, which the predicate judges). Most defects depend on logits, not on the dot product that gave
// them.

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

// tensors.cc changes many values at once: a whole tensor becomes constant, or is rounded to few bits;
// runs of rows and columns are made plain. This removes what a defect does not need.

// Float tensors have numbers: hidden, weight, temperature, grad_logprob, grad_entropy. Null if absent.
inline constexpr int kFloatTensors = 5, kTemperatureNumber = 2;
HostTensor* FloatTensor(OwnedProblem& problem, int number);
const HostTensor* FloatTensor(const OwnedProblem& problem, int number);
// Returns value rounded to `bits` significant bits (1 to 24), to nearest, or toward zero.
float RoundToBits(float value, int bits, bool toward_zero);
// Tries constants, signs, few significant bits, integers, a common power of two.
bool SimplifyTensors(ShrinkSession& session);
// Makes rows of weight and hidden zero or a copy of a plain row, and hidden columns zero, in runs of
// half the extent down to `smallest`. Neutralising differs from deleting: the shape stays, and with it
// the ragged tail that a bug may need.
bool Neutralise(ShrinkSession& session, int64_t smallest);

// elements.cc changes single values, and all values of the same magnitude together: if a defect needs
// two values to be equal, or opposite, no single one of them can change.

// Simplifies over hidden and weight together, then tensor by tensor.
bool SimplifyDuplicates(ShrinkSession& session);
// Changes two elements of a tensor and keeps their sum: if a defect needs the sum, neither can change
// alone.
bool RedistributePairs(ShrinkSession& session);
// Simplifies every element, those of high rank first.
bool SimplifyElements(ShrinkSession& session);

// trade.cc gives up a default, or all values, if that makes the problem much smaller. An error of the
// last bit shows at two entries in fp32 gradients and may need hundreds in bf16; and equal values, the
// simplest ones, may cancel in all small problems. Does nothing if few values are left.
bool Trade(ShrinkSession& session);

}  // namespace plumbline::fuzz
