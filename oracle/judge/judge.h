// SPDX-License-Identifier: Apache-2.0
//
// Judges a problem's results as the sweep goes over them, or collects what they must be. The problem
// must be in host memory and have passed the operator's own argument checks.

#pragma once

#include <span>
#include <vector>

#include "kernel/problem.h"
#include "oracle/arbiter.h"
#include "oracle/contract.h"
#include "oracle/sweep/sweep.h"
#include "oracle/verdict/expectation.h"
#include "oracle/verdict/judging_sink.h"

namespace plumbline::oracle {

// What the arbiter rounds under a contract, for a hidden of this dtype.
inline RoundedSteps StepsOf(const Contract& contract, kernel::DType hidden) {
  return {contract.logits.For(hidden), contract.scaled_logits.For(hidden),
          contract.upstream_logprob.For(hidden), contract.upstream_entropy.For(hidden)};
}

// Judges every output present in results, which must be in host memory. Nothing of the size of a
// gradient is kept. Entries of *watched (may be null) must name elements of outputs that are present.
// `also` (may be null) is handed every row of elements as well.
Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options = {},
                       std::vector<Watched>* watched = nullptr, ElementSink* also = nullptr);

// Judges the results of several implementations of one contract by one evaluation. All must have the
// same outputs present. `watched` is empty, or has a list for each set of results.
std::vector<Judgement> JudgeTogether(const kernel::Problem& problem,
                                     std::span<const kernel::Results> results, const Contract& contract,
                                     const SweepOptions& options,
                                     std::span<std::vector<Watched>> watched,
                                     ElementSink* also = nullptr);

// Collects every output present in `wanted`, whose data is not read; its dtypes decide the output
// rounding.
Expectation Expected(const kernel::Problem& problem, const kernel::Results& wanted,
                     const Contract& contract, const SweepOptions& options = {});

}  // namespace plumbline::oracle
