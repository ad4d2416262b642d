// SPDX-License-Identifier: Apache-2.0
//
// The cells of a case describe what it showed, coarsely enough that the next case often shows the same.
// Device code has no useful edge coverage, so cases are told apart by numbers and shapes:
//
//   "gaussian bf16 logprob 2^-3"       floor(log2(error / bound)) of an output, by class and dtype;
//                                      "0" for no error at all, "over" above the bound
//   "gaussian bf16 logprob vacuous"    no element of it could be judged
//   "ragged-tail V+1/64 H/16 N>1"      regime, and the shape's place between multiples of a tile:
//                                      V0/64 on one, V+1/64 just beyond, V-1/64 just below, V/16 a
//                                      multiple of 16 only, V elsewhere; H/16 or H; N0, N1, N>1
//   "shows bound:logprob"              a signature
//
// A skipped case and a fault have no cells.

#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/search/record.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// Returns the cells, none twice.
std::vector<std::string> CellsOf(const CaseRecord& record, const Recipe& recipe);

// Returns a bin such as "2^-3". Bins end at 2^-12, below which rounding noise would make cells without
// end.
std::string TightnessBin(double tightness);

}  // namespace plumbline::fuzz
