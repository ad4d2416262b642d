// SPDX-License-Identifier: Apache-2.0
//
// Makes a case from a dump on which a target failed: the worst row alone, or the sample's first rows if
// one is not enough, over as much of the vocabulary as a case may hold. The case is run again in a
// campaign's worker, shrunk, and stored, so that a few numbers replay a failure found in a gigabyte.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "fuzz/check/judge.h"
#include "fuzz/check/sample.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

struct DumpCase {
  std::filesystem::path file;  // empty: none was stored
  int64_t values_before = 0, values_after = 0;
  std::string what;  // the stored finding in words, or why there is none
};

// `verdict` is that of the runner's target on the sample, and has a wrong element. `folder` is created
// if it does not exist.
DumpCase KeepDumpCase(const DumpSample& sample, const DumpVerdict& verdict, uint64_t seed,
                      const std::filesystem::path& folder, CaseRunner* runner);

}  // namespace plumbline::fuzz
