// SPDX-License-Identifier: Apache-2.0
//
// The shortcut that explains elements beyond their bounds in a small case. Every element is compared by
// itself there: a bound is narrow, and few units carry no statistics.

#pragma once

#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// Returns the words of explain.h, "logits rounded to bf16, or logits / T rounded to bf16", or nothing.
// A shortcut explains a case if with it every finite element of every output is within its bound of the
// simulated value, and if of at least kLeastElements elements beyond their bounds nine in ten err by
// less than a tenth of what they did. The one that leaves least is named, and a second one that leaves
// less than twice as much. loss is not simulated. Problems of more than 2^20 multiply-adds are not
// tried. `failing`: the outputs with such elements.
std::string ShortcutOfSmallCase(const kernel::Problem& problem, const kernel::Results& results,
                                const oracle::Contract& contract,
                                const std::vector<oracle::Output>& failing);

// True if an element of this output beyond its bound is explained by none of them, not in part either:
// what each makes of it is farther than twice its bound from what came, and than half its error. False
// where they cannot be tried.
bool LeavesUnexplained(const kernel::Problem& problem, const kernel::Results& results,
                       const oracle::Contract& contract, oracle::Output output);

inline constexpr int kLeastElements = 4;

}  // namespace plumbline::fuzz
