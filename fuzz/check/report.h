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
#include "fuzz/consistency/consistency.h"

namespace plumbline::fuzz {

// What is wrong though no element of an output is.
struct DumpFinding {
  std::string headline;  // "grad_weight is not 0 in padding"
  std::string line;      // the same in full
};

struct DumpReport {
  std::string judged;    // "what the dump holds" or "mutant:x, run on these rows"
  std::string contract;  // whose bounds they are: "a black box", "host"
  bool assumed = false;  // nobody named that contract
  DumpVerdict verdict;
  ConsistencyReport consistency;
  std::vector<std::string> not_looked_at;  // one line each, with the reason
  std::vector<Diagnosis> diagnosis;
  std::vector<std::string> cannot_show;  // what the contract allows, where it leaves keys out
  std::vector<DumpFinding> findings;
  std::vector<std::string> notes;     // on the dump, a line each, above the table
  std::vector<std::string> shards;    // where in the ranks' shards it fails, a line each
  std::vector<std::string> sections;  // lines each, below what was not looked at
  Json more_json;                     // their members of the object, or null
};

// Returns everything except the verdict line.
std::string DumpReportText(const DumpSample& sample, const DumpReport& report);
Json DumpReportJson(const DumpSample& sample, const DumpReport& report);

// Returns the parts that were not judged: rows, outputs that depend on every row, unknown tensors.
std::vector<std::string> NotLookedAt(const DumpSample& sample, bool ran);

}  // namespace plumbline::fuzz
