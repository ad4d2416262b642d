// SPDX-License-Identifier: Apache-2.0
//
// The consistency checks (fuzz/consistency/CONSISTENCY.md) of a dump, and their part of the report of
// `plumb check`.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/check/sample.h"
#include "fuzz/consistency/consistency.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// Checks the results of the judged rows. A check that holds by the declared contract and not by what is
// assumed of the keys that it leaves out is suspect. `counted`: the divisor of `mean`.
ConsistencyReport CheckDumpConsistency(const DumpSample& sample, const kernel::Results& results,
                                       const Description& description, std::optional<int64_t> counted,
                                       bool ran);

// The checks that do not hold, wrong before suspect.
std::vector<const ConsistencyCheck*> BrokenChecks(const ConsistencyReport& report);
// The first line where these alone show something: "WRONG: the columns of grad_weight ...". Empty if
// all hold.
std::string ConsistencyHeadline(const ConsistencyReport& report);

std::string ConsistencyText(const ConsistencyReport& report);
Json ConsistencyJson(const ConsistencyReport& report);

}  // namespace plumbline::fuzz
