// SPDX-License-Identifier: Apache-2.0
//
// A problem's results judged as the sweep goes over them: nothing of the size of a gradient is kept.

#ifndef PLUMBLINE_ORACLE_JUDGE_JUDGE_H_
#define PLUMBLINE_ORACLE_JUDGE_JUDGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/judge/verdict.h"
#include "oracle/sweep/sweep.h"

namespace plumbline::oracle {

// An element that the caller wants to see: (row, column) as in OutputVerdict. Filled in by
// JudgeProblem.
struct Watched {
  Output output = Output::kLogprob;
  int64_t row = 0, column = 0;
  Element expected;
  double got = 0;
};

struct Judgement {
  std::vector<OutputVerdict> outputs;  // one for every output present in results
  int64_t first_invalid_row = -1;      // what that output must say
  // Not empty: some bound was NaN or negative, a fault of the harness. Names the element.
  std::string fault;
  bool interrupted = false;  // by SweepOptions::interrupt: some elements were not judged
};

// Every output present in results, which must be host memory. Entries of *watched (may be null) must
// name elements of outputs that are present.
Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options = {},
                       std::vector<Watched>* watched = nullptr);

// The results of several implementations of one contract, judged by one evaluation. All have the same
// outputs present. `watched` is empty, or has a list for each.
std::vector<Judgement> JudgeTogether(const kernel::Problem& problem,
                                     std::span<const kernel::Results> results, const Contract& contract,
                                     const SweepOptions& options,
                                     std::span<std::vector<Watched>> watched);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_JUDGE_JUDGE_H_
