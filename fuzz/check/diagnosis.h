// SPDX-License-Identifier: Apache-2.0
//
// Finds the hypotheses that explain a wrong dump. Each is computed: a few wrong rows are judged again
// as if the kernel had made that one mistake, and every output that failed then passes in every
// element. A hypothesis is a lead and no proof; if none fits, none is named.

#pragma once

#include <string>
#include <vector>

#include "fuzz/check/judge.h"
#include "fuzz/check/sample.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

struct Diagnosis {
  std::string what;                      // "the temperature was not applied"
  std::string ground;                    // "5 rows judged again on that assumption pass"
  std::vector<oracle::Output> explains;  // those of the outputs that fail

  std::string Sentence() const { return "consistent with this: " + what + " (" + ground + ")"; }
};

// Returns each hypothesis that fits. `results`, `verdict` and options are those of
// JudgeDump.
std::vector<Diagnosis> Diagnose(const DumpSample& sample, const kernel::Results& results,
                                const oracle::Contract& contract, const DumpVerdict& verdict,
                                const JudgeDumpOptions& options);

}  // namespace plumbline::fuzz
