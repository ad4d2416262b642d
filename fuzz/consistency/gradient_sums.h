// SPDX-License-Identifier: Apache-2.0
//
// Sums over a gradient's elements that several checks use.

#pragma once

#include <string>
#include <vector>

#include "fuzz/consistency/context.h"

namespace plumbline::fuzz {

// One pass over grad_weight and weight. Squares, of the statistical tier alone, take rows of weight
// that are alike as one, since their errors are.
WeightSums SumGradWeight(const ConsistencyContext& context);

// For each row that takes part in the gradients the root of how many rows of hidden have its bits: a
// sum of k equal errors is the root of k times k of their squares. 1 without the statistical tier.
std::vector<double> TimesAlike(const ConsistencyContext& context);

// Why nothing can be said of sums over all rows; empty if it can.
std::string UnfitForSums(const ConsistencyContext& context);
// False if a partial sum of a gradient may overflow what it is accumulated or stored in.
bool FitsInSums(const ConsistencyContext& context);

}  // namespace plumbline::fuzz
