// SPDX-License-Identifier: Apache-2.0
//
// Rows as the tokens of sequences, which is what they are in training: the labels of prompts and of
// padding are ignored, and an upstream gradient belongs to a sequence. Labels and gradients of one
// recipe share its sequences.

#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// True for the labels that follow the sequences of a recipe: kPrompts, kPadded and kPacked.
bool IsSequences(Labels labels);

struct Sequence {
  int64_t begin = 0, end = 0;   // rows
  int64_t first = 0, last = 0;  // the rows of its answer, [first, last), at least one
};

// The sequences of a recipe, which together are its N rows, in order. Those of kPacked have 1 to 32
// rows, and all but the last row of one that has several are its answer. Else there are up to four, of
// about equal length: with kPadded the answer is a prefix, otherwise the last eighth at most.
std::vector<Sequence> SequencesOf(const Recipe& recipe);

// Which rows are in no answer. Precondition: IsSequences(recipe.labels).
std::vector<bool> IgnoredBySequence(const Recipe& recipe);

}  // namespace plumbline::fuzz
