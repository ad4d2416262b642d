// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/judge.h"

#include <optional>
#include <set>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/baseline/weight_columns.h"
#include "fuzz/examine/second_opinion.h"
#include "fuzz/examine/tiers.h"
#include "oracle/arbiter.h"
#include "oracle/output.h"
#include "oracle/verdict/verdict.h"

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

void Arbitrate(const kernel::Problem& problem, const oracle::Contract& contract,
               const JudgeDumpOptions& options, DumpVerdict* verdict) {
  // Under `mean` the arbiter would divide by the number of rows that it sees.
  const bool another_mean = options.counted_rows && problem.reduction == kernel::Reduction::kMean;
  double cost_left = options.arbiter_cost;
  oracle::Arbiter arbiter(problem, oracle::StepsOf(contract, problem.hidden.dtype));
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
      output.arbiter_seconds = cost / kArbiterCostASecond;
      continue;
    }
    cost_left -= cost;
    const ArbiterValue value = arbiter.Evaluate(v.output, v.row, v.column);
    output.arbiter = value.digits;
    if (verdict->fault.empty()) verdict->fault = Disagreement(v, value, contract.promises);
  }
}

// Returns the readings of one output that is suspect.
std::vector<SuspectReading> ReadingsOf(const kernel::Problem& problem, const kernel::Results& results,
                                       Output output, const Description& description,
                                       const oracle::SweepOptions& options) {
  std::vector<Finding> finding(1);
  finding[0].suspect = true;
  finding[0].output = oracle::Name(output);
  const auto passes = [&](const oracle::Contract& contract, Output) {
    kernel::Results only;
    oracle::Find(&only, output) = oracle::Find(results, output);
    return oracle::JudgeProblem(problem, only, contract, options).outputs.front().fail == 0;
  };
  AddReadings(description, passes, &finding);
  return std::move(finding[0].readings);
}

// Judges one set of results and adds to the verdict. What is watched is judged by the declared contract
// if something fails.
void Judge(const kernel::Problem& problem, const kernel::Results& results, const DumpSample& sample,
           const Description& description, const oracle::SweepOptions& options,
           oracle::ElementSink* also, std::vector<Watched>* watched, DumpVerdict* verdict) {
  if (verdict->interrupted) return;
  std::vector<Watched> mine;
  const TieredJudgement tiered = std::move(
      JudgeInTiers(description, [&](const oracle::Contract& contract) {
        mine = WatchRows(results, problem.rows());
        return std::vector{oracle::JudgeProblem(problem, results, contract, options, &mine, also)};
      }).front());
  const oracle::Judgement& judgement = tiered.judgement;
  if (verdict->fault.empty()) verdict->fault = judgement.fault;
  verdict->interrupted = judgement.interrupted;
  for (size_t at = 0; at < judgement.outputs.size(); ++at) {
    const OutputVerdict& v = judgement.outputs[at];
    JudgedOutput output;
    output.verdict = v;
    output.suspect = tiered.suspect[at];
    if (tiered.IsSuspect(at) && !judgement.interrupted) {
      output.readings = ReadingsOf(problem, results, v.output, description, options);
    }
    output.dump_row = v.row;
    output.dtype = oracle::Find(results, v.output)->dtype;
    if (v.row >= 0 && (IsPerRow(v.output) || v.output == Output::kGradHidden)) {
      output.dump_row = sample.rows()[static_cast<size_t>(v.row)];
    }
    verdict->judged += v.pass + v.fail;
    verdict->wrong += output.wrong();
    verdict->suspect += output.suspect;
    verdict->conventions.Add(v.conventions);
    verdict->outputs.push_back(std::move(output));
  }
  watched->insert(watched->end(), mine.begin(), mine.end());
}

// The second tier of the dump's own grad_weight, if the sample leaves it out and has its other outputs.
HonestErrors OverAllRows(const DumpSample& sample, const kernel::Results& results,
                         const Description& description, const HonestErrors& honest,
                         const JudgeDumpOptions& options) {
  const Dump& dump = sample.dump();
  if (sample.all() || &results != &sample.given() || !dump.output(Output::kGradWeight)) return {};
  kernel::Results all;
  for (const Output o : {Output::kGradWeight, Output::kLse, Output::kLogprob, Output::kEntropy}) {
    if (const auto& tensor = dump.output(o)) oracle::Find(&all, o) = AsResult(*tensor);
  }
  const Output forward = all.lse ? Output::kLse : Output::kLogprob;
  double lse_error = 0;
  for (const OutputErrors& o : honest.outputs) {
    if (o.output == forward) lse_error = o.units.honest;
  }
  HonestErrorOptions weight{options};
  weight.counted_rows.reset();  // the whole dump
  weight.seed = options.seed;
  weight.deep = options.deep;
  return CompareWeightColumns(dump.problem, all, description.Assumed(), weight, lse_error);
}

}  // namespace

DumpVerdict JudgeDump(const DumpSample& sample, const kernel::Results& results,
                      const Description& description, const JudgeDumpOptions& options) {
  DumpVerdict verdict;
  std::vector<Watched> watched;
  kernel::Results first = results;
  std::optional<HonestErrorTier> tier;
  if (options.honest_errors) {
    HonestErrorOptions honest{options};
    honest.seed = options.seed;
    honest.deep = options.deep;
    tier.emplace(sample.problem(), results, description.Assumed(), honest);
  }
  HonestErrorTier* const also = tier ? &*tier : nullptr;
  if (results.logprob && sample.problem().reduction != kernel::Reduction::kNone) {
    kernel::Problem plain = sample.problem();
    plain.reduction = kernel::Reduction::kNone;
    plain.grad_logprob.reset();  // a scalar with a reduction, one value a row without
    kernel::Results logprob;
    logprob.logprob = std::exchange(first.logprob, std::nullopt);
    Judge(plain, logprob, sample, description, options, also, &watched, &verdict);
  }
  Judge(sample.problem(), first, sample, description, options, also, &watched, &verdict);
  if (verdict.interrupted) return verdict;
  if (tier) {
    verdict.honest = tier->Compare();
    verdict.over_all_rows = OverAllRows(sample, results, description, verdict.honest, options);
  }
  verdict.wrong_rows = WrongRows(watched, sample);
  if (verdict.wrong + verdict.suspect > 0 && verdict.fault.empty()) {
    Arbitrate(sample.problem(), description.contract, options, &verdict);
  }
  return verdict;
}

}  // namespace plumbline::fuzz
