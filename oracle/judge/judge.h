// SPDX-License-Identifier: Apache-2.0
//
// Judges a problem's results as the sweep goes over them. Nothing of the size of a gradient is kept.

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

// An element that the caller wants to see. (row, column) is as in OutputVerdict. JudgeProblem fills in
// the rest.
struct Watched {
  Output output = Output::kLogprob;
  int64_t row = 0, column = 0;
  Element expected;
  double got = 0;
};

struct Judgement {
  std::vector<OutputVerdict> outputs;  // one for every output present in results
  int64_t first_invalid_row = -1;      // the row that an output of that name must report; -1: none
  // Not empty: some bound was NaN or negative, which is a fault of the harness. It names the element.
  std::string fault;
  bool interrupted = false;  // SweepOptions::interrupt was raised: some elements were not judged
};

// Judges every output present in results. Problem and results must be in host memory, and the problem
// must have passed the operator's own argument checks. Entries of *watched (may be null) must name
// elements of outputs that are present.
Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options = {},
                       std::vector<Watched>* watched = nullptr);

// Judges the results of several implementations of one contract by one evaluation. All must have the
// same outputs present. `watched` is empty, or has a list for each set of results.
std::vector<Judgement> JudgeTogether(const kernel::Problem& problem,
                                     std::span<const kernel::Results> results, const Contract& contract,
                                     const SweepOptions& options,
                                     std::span<std::vector<Watched>> watched);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_JUDGE_JUDGE_H_
