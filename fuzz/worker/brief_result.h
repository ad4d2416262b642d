// SPDX-License-Identifier: Apache-2.0
//
// The short form, a line of words, of a result that has nothing to report but numbers. Nearly every
// reply of a worker has this form: JSON for each reply took a tenth of a campaign's time.
//
//   VERDICT ARBITRATED EXPAND TARGET ORACLE {OUTPUT PASS FAIL VACUOUS UNSPECIFIED TIGHTNESS}...
//
// Seconds and tightness have as many digits as it takes to read the same number back.

#ifndef PLUMBLINE_FUZZ_WORKER_BRIEF_RESULT_H_
#define PLUMBLINE_FUZZ_WORKER_BRIEF_RESULT_H_

#include <optional>
#include <string>
#include <string_view>

#include "fuzz/examine/result.h"

namespace plumbline::fuzz {

// Nullopt if the result has findings, a reason for skipping or a fault.
std::optional<std::string> Brief(const CaseResult& result);
// Nullopt for anything that Brief does not write.
std::optional<CaseResult> CaseResultFromBrief(std::string_view line);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_WORKER_BRIEF_RESULT_H_
