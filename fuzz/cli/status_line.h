// SPDX-License-Identifier: Apache-2.0
//
// How far a campaign is, in one line for a person and as JSON for a machine.

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "fuzz/base/json.h"
#include "fuzz/campaign/progress.h"

namespace plumbline::fuzz {

// Returns the time until the budget ends, at least 0: by the clock, or for a budget of cases by the
// rate of this run. Absent for a single recipe, and while no case of this run has been judged.
std::optional<std::chrono::milliseconds> TimeLeft(const Progress& progress);

// Returns one line without its newline: phase, elapsed and budget, time left, cases, their judged
// share, findings by severity, cases a second, what is being shrunk, the tightest output, cells and how
// long ago the last new one was seen. It has at most `width` characters, with the least important part
// cut off; 0: no limit.
std::string StatusLine(const Progress& progress, size_t width = 0);

// Returns an object: phase, seconds, budget ("5m", "5000cases"), budget_seconds or budget_cases (of all
// targets), left_seconds, cases, judged, skipped, a_second, wrong, suspect, cells, since_new_cell
// (seconds), activity (a list), and tightest ({output: error over bound}). left_seconds and tightest
// may be absent.
Json ToJson(const Progress& progress);

}  // namespace plumbline::fuzz
