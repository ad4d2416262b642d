// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/judge.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "fuzz/base/text.h"
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

void TakeWatched(const std::vector<Watched>& watched, const DumpSample& sample, DumpVerdict* verdict) {
  if (sample.problem().rows() > kMaxWatchedRows) return;
  verdict->rows.resize(sample.rows().size());
  std::vector<bool> wrong(sample.rows().size());
  for (const Watched& w : watched) {
    const auto at = static_cast<size_t>(w.row);
    JudgedRow& row = verdict->rows[at];
    switch (w.output) {
      case Output::kLogprob:
        row.logprob = w.expected, row.got_logprob = w.got;
        break;
      case Output::kEntropy:
        row.entropy = w.expected, row.got_entropy = w.got;
        break;
      default:
        row.lse = w.expected, row.got_lse = w.got;
    }
    if (oracle::Judge(w.output, w.expected, w.got).verdict == oracle::Verdict::kFail) wrong[at] = true;
  }
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i]) verdict->wrong_rows.push_back(sample.rows()[i]);
  }
}

// Reference and arbiter must agree within the reference's radius, and an element that fails by the one
// must fail by the other.
std::string Disagreement(const OutputVerdict& v, const ArbiterValue& a) {
  using Class = ArbiterValue::Class;
  const Element& e = v.expected;
  bool agrees = true;
  bool fails = true;
  switch (e.expect) {
    case oracle::Expect::kNaN:
      agrees = a.kind == Class::kNaN;
      break;
    case oracle::Expect::kPlusInf:
      agrees = a.kind == Class::kPlusInf;
      break;
    case oracle::Expect::kMinusInf:
      agrees = a.kind == Class::kMinusInf;
      break;
    case oracle::Expect::kPlusZero:
      agrees = a.kind == Class::kFinite && a.high == 0;
      break;
    case oracle::Expect::kUnspecified:
      break;
    default: {
      agrees =
          a.kind == Class::kFinite && std::fabs((e.value - a.high) - a.low) <= e.radius * (1 + 0x1p-40);
      Element exact = e;
      exact.value = a.high;
      exact.radius = std::fabs(a.low);
      fails = oracle::Judge(v.output, exact, v.got).verdict == oracle::Verdict::kFail;
    }
  }
  if (agrees && fails) return {};
  return Place(oracle::Name(v.output), v.row, v.column) +
         Text(": got %.17g; reference %.17g, radius %.3g, bound %.3g; arbiter ", v.got, e.value,
              e.radius, e.bound) +
         a.digits;
}

void Arbitrate(const kernel::Problem& problem, const JudgeDumpOptions& options, DumpVerdict* verdict) {
  // Under `mean` the arbiter would divide by the number of rows that it sees.
  const bool another_mean = options.counted_rows && problem.reduction == kernel::Reduction::kMean;
  double cost_left = options.arbiter_cost;
  oracle::Arbiter arbiter(problem);
  for (JudgedOutput& output : verdict->outputs) {
    const OutputVerdict& v = output.verdict;
    if (v.fail == 0) continue;
    if (another_mean && v.output == Output::kGradHidden) {
      output.arbiter_silent = "knows these rows only, and the mean is over all";
      continue;
    }
    const double cost = arbiter.Cost(v.output, v.row, v.column);
    if (cost > cost_left) {
      output.arbiter_silent = Text("would take about %.0f s", cost / kArbiterCostASecond);
      continue;
    }
    cost_left -= cost;
    const ArbiterValue value = arbiter.Evaluate(v.output, v.row, v.column);
    output.arbiter = value.digits;
    if (verdict->fault.empty()) verdict->fault = Disagreement(v, value);
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
    verdict->outputs.push_back(std::move(output));
  }
  watched->insert(watched->end(), mine.begin(), mine.end());
}

}  // namespace

oracle::SweepOptions JudgeDumpOptions::ForSweep() const {
  oracle::SweepOptions sweep;
  sweep.threads = threads;
  sweep.counted_rows = counted_rows;
  sweep.interrupt = interrupt;
  return sweep;
}

DumpVerdict JudgeDump(const DumpSample& sample, const kernel::Results& results,
                      const oracle::Contract& contract, const JudgeDumpOptions& options) {
  const oracle::SweepOptions sweep = options.ForSweep();
  DumpVerdict verdict;
  std::vector<Watched> watched;
  kernel::Results first = results;
  if (results.logprob && sample.problem().reduction != kernel::Reduction::kNone) {
    kernel::Problem plain = sample.problem();
    plain.reduction = kernel::Reduction::kNone;
    plain.grad_logprob.reset();  // a scalar with a reduction, one value a row without
    kernel::Results logprob;
    logprob.logprob = std::exchange(first.logprob, std::nullopt);
    Judge(plain, logprob, sample, contract, sweep, &watched, &verdict);
  }
  Judge(sample.problem(), first, sample, contract, sweep, &watched, &verdict);
  if (verdict.interrupted) return verdict;
  TakeWatched(watched, sample, &verdict);
  if (verdict.wrong > 0 && verdict.fault.empty()) {
    Arbitrate(sample.problem(), options, &verdict);
  }
  return verdict;
}

}  // namespace plumbline::fuzz
