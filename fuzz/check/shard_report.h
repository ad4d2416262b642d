// SPDX-License-Identifier: Apache-2.0
//
// Whose shard what is wrong lies in, and outputs that are not the same on all ranks.

#pragma once

#include "fuzz/check/judge.h"
#include "fuzz/check/report.h"
#include "fuzz/check/sample.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

// Adds what the report says of the shards, if the dump has boundaries. `results`, `description` and
// options are those of JudgeDump, whose verdict the report has. Where an output that the ranks divide
// fails, its elements are judged once more, to count the wrong ones of each shard. `ran`: the results
// are those of a target, to which what the ranks wrote is nothing.
void ReportShards(const DumpSample& sample, const kernel::Results& results,
                  const Description& description, const JudgeDumpOptions& options, bool ran,
                  DumpReport* report);

}  // namespace plumbline::fuzz
