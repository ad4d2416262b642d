// SPDX-License-Identifier: Apache-2.0
//
// The result of a case of which there is nothing to tell but numbers, as a line of words: what nearly
// every reply of a worker is. JSON for each took a tenth of a campaign's time.
//
//   VERDICT ARBITRATED EXPAND TARGET ORACLE {OUTPUT PASS FAIL VACUOUS UNSPECIFIED TIGHTNESS}...
//
// Seconds and tightness in as many digits as it takes to get them back.

#ifndef PLUMBLINE_FUZZ_WORKER_BRIEF_RESULT_H_
#define PLUMBLINE_FUZZ_WORKER_BRIEF_RESULT_H_

#include <optional>
#include <string>
#include <string_view>

#include "fuzz/examine/result.h"

namespace plumbline::fuzz {

// Nullopt where a result has findings, a reason for skipping or a fault.
std::optional<std::string> Brief(const CaseResult& result);
// Nullopt for anything that Brief does not write.
std::optional<CaseResult> CaseResultFromBrief(std::string_view line);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_WORKER_BRIEF_RESULT_H_
