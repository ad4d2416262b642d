// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge/judge.h"

#include <utility>

namespace plumbline::oracle {

Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options,
                       std::vector<Watched>* watched) {
  return JudgeTogether(problem, {&results, 1}, contract, options,
                       {watched, watched != nullptr ? size_t{1} : 0})
      .front();
}

std::vector<Judgement> JudgeTogether(const kernel::Problem& problem,
                                     std::span<const kernel::Results> results, const Contract& contract,
                                     const SweepOptions& options,
                                     std::span<std::vector<Watched>> watched) {
  JudgingSink sink(results, watched);
  const SweepResult swept = Sweep(problem, results.front(), contract, options, &sink);
  for (Judgement& judgement : sink.judgements) {
    judgement.first_invalid_row = swept.first_invalid_row;
    judgement.interrupted = swept.interrupted;
  }
  return std::move(sink.judgements);
}

Expectation Expected(const kernel::Problem& problem, const kernel::Results& wanted,
                     const Contract& contract, const SweepOptions& options) {
  Collector collector(problem, wanted);
  collector.all.first_invalid_row =
      Sweep(problem, wanted, contract, options, &collector).first_invalid_row;
  return std::move(collector.all);
}

}  // namespace plumbline::oracle
