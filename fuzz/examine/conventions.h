// SPDX-License-Identifier: Apache-2.0
//
// The conventions that a target follows where it differs from kernel/OPERATION.md in what is no number
// (oracle/convention.h): listed once for a target, and no findings.

#pragma once

#include <string>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/base/json.h"
#include "oracle/convention.h"

namespace plumbline::fuzz {

// One sentence for each convention in which the target is not on the definition's side alone:
//   "lse of nothing but -infinity: -infinity; the definition has NaN"
// and, of one that excludes the other side where both were seen:
//   "the mean of no row: inconsistent, 0 in some cases and NaN in others; the definition has 0"
std::vector<std::string> ConventionLines(const oracle::ConventionsSeen& seen);

// The same as a list of objects {"convention", "follows", "definition", "inconsistent"}.
Json ConventionsJson(const oracle::ConventionsSeen& seen);

// The names of the conventions, by side.
void Fields(FieldVisitor& io, oracle::ConventionsSeen& seen);

}  // namespace plumbline::fuzz
