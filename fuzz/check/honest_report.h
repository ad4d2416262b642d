// SPDX-License-Identifier: Apache-2.0
//
// The second tier in a report of `plumb check`: its table, what explains what is suspect, and what it
// could not have seen.

#pragma once

#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/baseline/honest_errors.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// "logprob, entropy".
std::string NamesOf(const std::vector<oracle::Output>& outputs);
// "logits rounded to bf16, or T rounded to bf16; and outputs stored in bf16".
std::string ShortcutsOf(const Explanation& explanation);

// The first line where no bound is broken and an output is suspect.
std::string SuspectHeadline(const HonestErrors& honest);
// Returns the outputs that fail or are suspect if shortcuts explain them all: nothing suspect is left
// of them. Empty if not.
std::vector<oracle::Output> ExplainedByShortcuts(const HonestErrors& honest,
                                                 const std::vector<oracle::Output>& failing);

// Empty if nothing was compared.
std::string HonestErrorsTable(const HonestErrors& honest);
// What explains the suspect outputs, and what is left of them under it. Empty if none is suspect.
std::string ExplanationText(const HonestErrors& honest);
// The errors that would still be clean. Empty if nothing was compared.
std::string NotSeen(const HonestErrors& honest);

Json HonestErrorsJson(const HonestErrors& honest);

}  // namespace plumbline::fuzz
