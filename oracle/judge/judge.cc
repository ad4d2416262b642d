// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge/judge.h"

#include <utility>

namespace plumbline::oracle {
namespace {

bool IsGradient(Output output) {
  return output == Output::kGradHidden || output == Output::kGradWeight;
}

int64_t GradientFailures(const Judgement& judgement) {
  int64_t failures = 0;
  for (const OutputVerdict& v : judgement.outputs) failures += IsGradient(v.output) ? v.fail : 0;
  return failures;
}

// Replaces the verdicts of the gradients, and what is known of the elements that are watched in them.
// These keep what the definition expects, which is what the arbiter computes.
void TakeGradients(const Judgement& other, const std::vector<Watched>* theirs, Judgement* judgement,
                   std::vector<Watched>* mine) {
  for (OutputVerdict& v : judgement->outputs) {
    for (const OutputVerdict& o : other.outputs) {
      if (o.output == v.output) v = o;
    }
  }
  if (mine == nullptr) return;
  auto from = theirs->begin();
  for (Watched& w : *mine) {
    if (IsGradient(w.output)) w.failed = (from++)->failed;
  }
}

// Judges the gradients once more by the alternative of kLabelAtInfinity. One evaluation holds for all
// rows and both gradients, so a target that drops the label's part in one of them fails by either.
void JudgeInfiniteLabels(const kernel::Problem& problem, std::span<const kernel::Results> results,
                         const Contract& contract, SweepOptions options,
                         std::span<std::vector<Watched>> watched, std::vector<Judgement>* judgements) {
  std::vector<kernel::Results> gradients(results.size());
  std::vector<std::vector<Watched>> copies(watched.size());
  for (size_t set = 0; set < results.size(); ++set) {
    gradients[set].grad_hidden = results[set].grad_hidden;
    gradients[set].grad_weight = results[set].grad_weight;
    if (watched.empty()) continue;
    for (const Watched& w : watched[set]) {
      if (IsGradient(w.output)) copies[set].push_back(w);
    }
  }
  options.drops_infinite_label = true;
  JudgingSink sink(gradients, copies, contract.promises);
  const bool interrupted = Sweep(problem, gradients.front(), contract, options, &sink).interrupted;
  for (size_t set = 0; set < results.size(); ++set) {
    Judgement& mine = (*judgements)[set];
    const Judgement& other = sink.judgements[set];
    mine.interrupted = mine.interrupted || interrupted;
    if (mine.fault.empty()) mine.fault = other.fault;
    if (interrupted) continue;
    const bool by_definition = GradientFailures(mine) == 0, by_other = GradientFailures(other) == 0;
    if (by_definition == by_other || !other.fault.empty()) continue;
    if (by_other) {
      TakeGradients(other, watched.empty() ? nullptr : &copies[set], &mine,
                    watched.empty() ? nullptr : &watched[set]);
    }
    for (OutputVerdict& v : mine.outputs) {
      if (IsGradient(v.output)) v.conventions.Note(Convention::kLabelAtInfinity, by_other);
    }
  }
}

}  // namespace

Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options,
                       std::vector<Watched>* watched, ElementSink* also) {
  return JudgeTogether(problem, {&results, 1}, contract, options,
                       {watched, watched != nullptr ? size_t{1} : 0}, also)
      .front();
}

std::vector<Judgement> JudgeTogether(const kernel::Problem& problem,
                                     std::span<const kernel::Results> results, const Contract& contract,
                                     const SweepOptions& options,
                                     std::span<std::vector<Watched>> watched, ElementSink* also) {
  JudgingSink sink(results, watched, contract.promises, also);
  const SweepResult swept = Sweep(problem, results.front(), contract, options, &sink);
  for (Judgement& judgement : sink.judgements) {
    judgement.first_invalid_row = swept.first_invalid_row;
    judgement.interrupted = swept.interrupted;
  }
  if (swept.infinite_label && !contract.promises.definition) {
    JudgeInfiniteLabels(problem, results, contract, options, watched, &sink.judgements);
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
