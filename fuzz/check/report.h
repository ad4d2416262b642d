// SPDX-License-Identifier: Apache-2.0
//
// The report of `plumb check` on one dump, for a person and for a machine.

#pragma once

#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/check/diagnosis.h"
#include "fuzz/check/judge.h"
#include "fuzz/check/sample.h"

namespace plumbline::fuzz {

struct DumpReport {
  std::string judged;    // "what the dump holds" or "mutant:x, run on these rows"
  std::string contract;  // whose bounds they are: "a black box", "host"
  bool assumed = false;  // nobody named that contract
  DumpVerdict verdict;
  std::vector<std::string> not_looked_at;  // one line each, with the reason
  std::vector<Diagnosis> diagnosis;
  std::vector<std::string> cannot_show;  // what the contract allows, where it leaves keys out
};

// Returns everything except the verdict line.
std::string DumpReportText(const DumpSample& sample, const DumpReport& report);
Json DumpReportJson(const DumpSample& sample, const DumpReport& report);

// Returns the parts that were not judged: rows, outputs that depend on every row, unknown tensors.
std::vector<std::string> NotLookedAt(const DumpSample& sample, bool ran);

}  // namespace plumbline::fuzz
