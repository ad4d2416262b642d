// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/judge.h"

#include <set>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/examine/second_opinion.h"
#include "oracle/arbiter.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

using oracle::ArbiterValue;
using oracle::Element;
using oracle::Output;
using oracle::OutputVerdict;
using oracle::Watched;

bool IsPerRow(Output o) { return o == Output::kLogprob || o == Output::kEntropy || o == Output::kLse; }

// Watches the per-row outputs of every row, so that wrong rows can be listed.
std::vector<Watched> WatchRows(const kernel::Results& results, int64_t rows) {
  std::vector<Watched> watched;
  if (rows > kMaxWatchedRows) return watched;
  for (Output o : {Output::kLogprob, Output::kEntropy, Output::kLse}) {
    if (!oracle::Find(results, o)) continue;
    for (int64_t i = 0; i < rows; ++i) watched.push_back({o, i, 0, {}, 0});
  }
  return watched;
}

std::vector<int64_t> WrongRows(const std::vector<Watched>& watched, const DumpSample& sample) {
  std::set<int64_t> wrong;
  for (const Watched& w : watched) {
    if (w.failed) wrong.insert(sample.rows()[static_cast<size_t>(w.row)]);
  }
  return {wrong.begin(), wrong.end()};
}

// Reference and arbiter must agree within the reference's radius, and an element that fails by the one
// must fail by the other.
std::string Disagreement(const OutputVerdict& v, const ArbiterValue& a,
                         const oracle::Promises& promises) {
  const Element& e = v.expected;
  if (Agrees(e, a) && FailsByArbiter(v.output, e, v.got, a, promises)) return {};
  return Place(oracle::Name(v.output), v.row, v.column) +
         Text(": got %.17g; reference %.17g, radius %.3g, bound %.3g; arbiter ", v.got, e.value,
              e.radius, e.bound) +
         a.digits;
}

void Arbitrate(const kernel::Problem& problem, const oracle::Promises& promises,
               const JudgeDumpOptions& options, DumpVerdict* verdict) {
  // Under `mean` the arbiter would divide by the number of rows that it sees.
  const bool another_mean = options.counted_rows && problem.reduction == kernel::Reduction::kMean;
  double cost_left = options.arbiter_cost;
  oracle::Arbiter arbiter(problem);
  for (JudgedOutput& output : verdict->outputs) {
    const OutputVerdict& v = output.verdict;
    if (v.fail == 0) continue;
    if (another_mean && v.output == Output::kGradHidden) {
      output.arbiter_silent = "it knows these rows only, and the mean is over all";
      continue;
    }
    const double cost = arbiter.Cost(v.output, v.row, v.column);
    if (cost > cost_left) {
      output.arbiter_silent = TooDear(cost);
      continue;
    }
    cost_left -= cost;
    const ArbiterValue value = arbiter.Evaluate(v.output, v.row, v.column);
    output.arbiter = value.digits;
    if (verdict->fault.empty()) verdict->fault = Disagreement(v, value, promises);
  }
}

// Judges one set of results and adds to the verdict.
void Judge(const kernel::Problem& problem, const kernel::Results& results, const DumpSample& sample,
           const oracle::Contract& contract, const oracle::SweepOptions& options,
           std::vector<Watched>* watched, DumpVerdict* verdict) {
  if (verdict->interrupted) return;
  std::vector<Watched> mine = WatchRows(results, problem.rows());
  oracle::Judgement judgement = oracle::JudgeProblem(problem, results, contract, options, &mine);
  if (verdict->fault.empty()) verdict->fault = std::move(judgement.fault);
  verdict->interrupted = judgement.interrupted;
  for (OutputVerdict& v : judgement.outputs) {
    JudgedOutput output;
    output.verdict = v;
    output.dump_row = v.row;
    if (v.row >= 0 && (IsPerRow(v.output) || v.output == Output::kGradHidden)) {
      output.dump_row = sample.rows()[static_cast<size_t>(v.row)];
    }
    verdict->judged += v.pass + v.fail;
    verdict->wrong += v.fail;
    verdict->conventions.Add(v.conventions);
    verdict->outputs.push_back(std::move(output));
  }
  watched->insert(watched->end(), mine.begin(), mine.end());
}

}  // namespace

DumpVerdict JudgeDump(const DumpSample& sample, const kernel::Results& results,
                      const oracle::Contract& contract, const JudgeDumpOptions& options) {
  DumpVerdict verdict;
  std::vector<Watched> watched;
  kernel::Results first = results;
  if (results.logprob && sample.problem().reduction != kernel::Reduction::kNone) {
    kernel::Problem plain = sample.problem();
    plain.reduction = kernel::Reduction::kNone;
    plain.grad_logprob.reset();  // a scalar with a reduction, one value a row without
    kernel::Results logprob;
    logprob.logprob = std::exchange(first.logprob, std::nullopt);
    Judge(plain, logprob, sample, contract, options, &watched, &verdict);
  }
  Judge(sample.problem(), first, sample, contract, options, &watched, &verdict);
  if (verdict.interrupted) return verdict;
  verdict.wrong_rows = WrongRows(watched, sample);
  if (verdict.wrong > 0 && verdict.fault.empty()) {
    Arbitrate(sample.problem(), contract.promises, options, &verdict);
  }
  return verdict;
}

}  // namespace plumbline::fuzz
