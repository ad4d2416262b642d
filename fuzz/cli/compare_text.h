// SPDX-License-Identifier: Apache-2.0
//
// Prints a comparison of targets as text for a person.

#pragma once

#include <string>
#include <string_view>

#include "fuzz/compare/comparison.h"

namespace plumbline::fuzz {

// Two tables with a row for each target, what was found on the same cases and how far off the outputs
// are, and below them, by target, what the tables name in one word. `out`: the comparison's folder.
// `program`: how this program was called.
std::string ComparisonText(const TargetComparison& comparison, std::string_view out,
                           std::string_view program);

}  // namespace plumbline::fuzz
