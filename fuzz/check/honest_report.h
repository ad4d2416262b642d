// SPDX-License-Identifier: Apache-2.0
//
// The second tier in a report of `plumb check`: its table, what explains what is suspect, and what it
// could not have seen.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/baseline/honest_errors.h"
#include "oracle/budget/inputs.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// "logprob, entropy".
std::string NamesOf(const std::vector<oracle::Output>& outputs);

// The first line where no bound is broken and an output is suspect. `where`: "on these rows".
std::string SuspectHeadline(const HonestErrors& honest, std::string_view where);
// Returns the outputs that fail or are suspect if shortcuts explain them all: nothing suspect is left
// of them. Empty if not.
std::vector<oracle::Output> ExplainedByShortcuts(const HonestErrors& honest,
                                                 const std::vector<oracle::Output>& failing);

// Empty if nothing was compared.
std::string HonestErrorsTable(const HonestErrors& honest);
// The same of what was compared over all rows, with what explains it and what it could not have seen.
std::string OverAllRowsText(const HonestErrors& weight);
// The worst rows of each suspect output, with their labels and temperatures. `name` gives the dump's
// index of a row of the sample.
std::string WorstRowsText(const HonestErrors& honest, const oracle::Inputs& inputs,
                          const std::function<int64_t(int64_t)>& name);
// What explains the suspect outputs, and what is left of them under it. Empty if none is suspect.
std::string ExplanationText(const HonestErrors& honest);
// The errors that would still be clean. Empty if nothing was compared.
std::string NotSeen(const HonestErrors& honest);

// `name` as in WorstRowsText.
Json HonestErrorsJson(const HonestErrors& honest, const std::function<int64_t(int64_t)>& name);

}  // namespace plumbline::fuzz
