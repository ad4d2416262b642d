// SPDX-License-Identifier: Apache-2.0
//
// Findings of the consistency checks (fuzz/consistency/CONSISTENCY.md): a case's outputs against each
// other, by the contract that the target declares and by what is assumed of the keys that it leaves
// out.

#pragma once

#include "fuzz/examine/result.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct ConsistencyOptions;  // fuzz/consistency/consistency.h, which is not installed
struct ConsistencyReport;

// Checks by what is assumed first. What is wrong by that and not by the contract as it is declared is
// suspect.
ConsistencyReport CheckConsistencyInTiers(const Description& description,
                                          const kernel::Problem& problem,
                                          const kernel::Results& results,
                                          const ConsistencyOptions& options);

// Adds a finding for each check that does not hold and compares no output of which the case has a
// finding already: what is wrong by a bound is inconsistent as a consequence. `problem` and `results`
// are in host memory, and the results are of all its rows.
void AddConsistencyFindings(const Description& description, const kernel::Problem& problem,
                            const kernel::Results& results, CaseResult* result);

}  // namespace plumbline::fuzz
