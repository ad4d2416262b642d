// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

#include "fuzz/device_run.h"
#include "fuzz/mix.h"
#include "fuzz/mutation.h"
#include "fuzz/output_bits.h"
#include "fuzz/placement.h"
#include "fuzz/second_opinion.h"
#include "fuzz/text.h"
#include "oracle/inputs.h"
#include "oracle/judge.h"

namespace plumbline::fuzz {
namespace {

using oracle::Element;
using oracle::Failure;
using oracle::OutputVerdict;
using oracle::Watched;

constexpr int kRandomElements = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

FindingKind KindOf(Failure failure) {
  switch (failure) {
    case Failure::kNonFinite:
      return FindingKind::kNonFinite;
    case Failure::kSign:
      return FindingKind::kSign;
    case Failure::kNotZero:
      return FindingKind::kNotZero;
    default:
      return FindingKind::kBound;
  }
}

std::string Requirement(const Element& e) {
  switch (e.expect) {
    case oracle::Expect::kPlusZero:
      return "exactly +0 is required";
    case oracle::Expect::kNaN:
      return "NaN is required";
    case oracle::Expect::kPlusInf:
      return "+infinity is required";
    case oracle::Expect::kMinusInf:
      return "-infinity is required";
    default:
      return Text("%.9g +- %.3g is required", e.value, e.bound);
  }
}

Finding FromVerdict(const OutputVerdict& v) {
  Finding f;
  f.kind = KindOf(v.failure);
  f.output = oracle::Name(v.output);
  f.row = v.row;
  f.column = v.column;
  f.got = v.got;
  f.expected = v.expected.value;
  f.bound = v.expected.bound;
  f.tightness = v.tightness;
  f.what = Place(f.output, f.row, f.column) + Text(" = %.9g where ", v.got) + Requirement(v.expected);
  if (f.kind == FindingKind::kSign) {
    f.what += f.output == "logprob" ? "; a log-probability is never positive"
                                    : "; an entropy is never negative";
  } else if (f.kind == FindingKind::kBound && std::isfinite(f.tightness)) {
    f.what += Text(" (off by %.3g times the bound)", f.tightness);
  }
  return f;
}

// A target on a problem in memory of its own, run once over each poison.
class Runs {
 public:
  Runs(const OwnedProblem& problem, const Target& target) : placement_(problem), target_(target) {}

  // A placement is new, and poisoned with 0, until its first run.
  RunOutcome Run(int poison) {
    if (ran_ || poison != 0) placement_.Poison(poison);
    ran_ = true;
    const auto start = std::chrono::steady_clock::now();
    RunOutcome outcome = target_.device() != nullptr
                             ? RunThere(poison)
                             : target_.Run(placement_.problem(), placement_.results());
    seconds_ += Seconds(start);
    return outcome;
  }
  // Of the last run.
  std::vector<Placement::Damage> Inspect() const {
    std::vector<Placement::Damage> damage = placement_.Inspect();
    damage.insert(damage.end(), scratch_damage_.begin(), scratch_damage_.end());
    return damage;
  }
  OutputBits Bits() const { return CopyBits(placement_.results()); }
  const Placement& placement() const { return placement_; }
  double seconds() const { return seconds_; }

 private:
  // Held up once: what comes too early then meets the other poison, and differs from the first run.
  RunOutcome RunThere(int poison) {
    DeviceOutcome there = RunOnDevice(target_, /*held_up=*/poison == 1, &placement_);
    scratch_damage_ = std::move(there.damage);
    return std::move(there.run);
  }

  Placement placement_;
  const Target& target_;
  std::vector<Placement::Damage> scratch_damage_;
  bool ran_ = false;
  double seconds_ = 0;
};

constexpr const char* kBitOutputs[] = {"logprob",     "loss",        "entropy",          "lse",
                                       "grad_hidden", "grad_weight", "first_invalid_row"};

int64_t ColumnsOf(size_t output, const OwnedProblem& problem) {
  return output == 4 || output == 5 ? problem.hidden_size() : 1;
}

Finding At(FindingKind kind, size_t output, int64_t element, int64_t columns) {
  Finding f;
  f.kind = kind;
  f.output = kBitOutputs[output];
  f.row = element / std::max<int64_t>(columns, 1);
  f.column = element % std::max<int64_t>(columns, 1);
  f.tightness = kInfinity;
  return f;
}

// Two runs, the first over poison 0 and the second over poison 1. One finding an output at most, for
// its first element that differs.
void CompareRuns(const OwnedProblem& problem, const OutputBits& first, const OutputBits& second,
                 bool deterministic, std::vector<Finding>* findings) {
  for (size_t o = 0; o < first.outputs.size(); ++o) {
    if (first.outputs[o] == second.outputs[o]) continue;
    const size_t width = first.outputs[o].width();
    for (size_t e = 0; e < first.outputs[o].size(); ++e) {
      const uint64_t a = first.outputs[o][e], b = second.outputs[o][e];
      if (a == b) continue;
      if (Planted(HarnessDefect::kNaNPasses) && ((a & 0x7fffffffu) > 0x7f800000u)) continue;
      if (Planted(HarnessDefect::kSignOfZeroIgnored) && ((a | b) & 0x7fffffffu) == 0) continue;
      if (Planted(HarnessDefect::kFirstElementOnly) && e > 0) break;
      const bool unwritten = a == PoisonBits(0, width) && b == PoisonBits(1, width);
      if (!unwritten && !deterministic) continue;
      Finding f = At(unwritten ? FindingKind::kUnwritten : FindingKind::kNondeterministic, o,
                     static_cast<int64_t>(e), ColumnsOf(o, problem));
      f.what = Place(f.output, f.row, f.column) +
               (unwritten ? std::string(" was never written")
                          : Text(" differs between two runs on the same input: bits %" PRIx64
                                 ", then %" PRIx64,
                                 a, b));
      findings->push_back(std::move(f));
      break;
    }
  }
}

bool HasInvalidRow(const OwnedProblem& problem) {
  return oracle::LoadInputs(DenseView(problem)).first_invalid_row >= 0;
}

// Row `row` of the batch against the same row alone.
void CompareAlone(const OwnedProblem& problem, const Target& target, const OutputBits& batch,
                  int64_t row, CaseResult* result) {
  OwnedProblem alone = SelectRows(problem, {row});
  if (HasInvalidRow(alone)) return;
  alone.wanted.grad_weight = false;
  Runs runs(alone, target);
  const RunOutcome outcome = runs.Run(0);
  result->target_seconds += runs.seconds();
  if (outcome.status == RunStatus::kUnsupported) return;
  if (outcome.status != RunStatus::kOk) {
    Finding f;
    f.kind = FindingKind::kStatus;
    f.row = row;
    f.what =
        Text("row %" PRId64 " alone was refused though its batch was not: ", row) + outcome.message;
    result->findings.push_back(std::move(f));
    return;
  }
  const OutputBits bits = runs.Bits();
  for (size_t o : {size_t{0}, size_t{2}, size_t{3}, size_t{4}}) {
    // Under `mean` a row's upstream gradient is divided by the number of rows: another problem.
    if (o == 4 && problem.reduction == kernel::Reduction::kMean) continue;
    if (bits.outputs[o].empty() || batch.outputs[o].empty()) continue;
    const auto columns = static_cast<size_t>(ColumnsOf(o, problem));
    for (size_t c = 0; c < columns; ++c) {
      const uint64_t in_batch = batch.outputs[o][static_cast<size_t>(row) * columns + c];
      if (bits.outputs[o][c] == in_batch) continue;
      Finding f = At(FindingKind::kBatchVariant, o,
                     row * static_cast<int64_t>(columns) + static_cast<int64_t>(c),
                     static_cast<int64_t>(columns));
      f.what = Place(f.output, f.row, f.column) + Text(" depends on its neighbours: bits %" PRIx64
                                                       " in the batch, %" PRIx64 " alone",
                                                       in_batch, bits.outputs[o][c]);
      result->findings.push_back(std::move(f));
      return;
    }
  }
}

// The worst element of every failing output, and the random ones.
void ArbitrateFailures(const std::vector<OutputVerdict>& verdicts, std::span<const Watched> random,
                       SecondOpinion* opinion, CaseResult* result) {
  for (const OutputVerdict& v : verdicts) {
    if (v.fail == 0) continue;
    std::string digits;
    result->harness_fault =
        opinion->Ask({v.output, v.row, v.column, v.expected, v.got}, /*failed=*/true, &digits);
    if (!result->harness_fault.empty()) return;
    for (Finding& f : result->findings) {
      if (f.output == oracle::Name(v.output) && f.kind == KindOf(v.failure)) f.arbiter = digits;
    }
  }
  result->harness_fault = opinion->AskAll(random);
}

void CompareInvalidRow(const kernel::Results& results, int64_t expected, CaseResult* result) {
  if (!results.first_invalid_row) return;
  const int64_t got = oracle::ReadInt(kernel::AsConst(*results.first_invalid_row), 0);
  if (got == expected) return;
  Finding f;
  f.kind = FindingKind::kStatus;
  f.output = "first_invalid_row";
  f.got = static_cast<double>(got);
  f.expected = static_cast<double>(expected);
  f.what = Text("first_invalid_row = %" PRId64 " where %" PRId64 " is required", got, expected);
  result->findings.push_back(std::move(f));
}

void JudgeOutputs(const Runs& runs, const Target& target, const ExamineOptions& options,
                  CaseResult* result) {
  const auto start = std::chrono::steady_clock::now();
  const kernel::Problem& problem = runs.placement().problem();
  const kernel::Results& results = runs.placement().results();
  // Picked before anything is known of the case, since the judge keeps no elements but these.
  std::vector<Watched> random, spread;
  if (options.arbiter) random = RandomElements(results, options.seed, kRandomElements);
  if (options.arbiter_on_pass) spread = SpreadElements(problem, results, options.seed);
  std::vector<Watched> watched = random;
  watched.insert(watched.end(), spread.begin(), spread.end());
  const oracle::Judgement judgement =
      oracle::JudgeProblem(problem, results, target.description().contract, {}, &watched);
  const std::span<const Watched> seen(watched);
  result->harness_fault = judgement.fault;
  bool judged = false, failed = false;
  for (const OutputVerdict& v : judgement.outputs) {
    result->outputs.push_back(
        {std::string(oracle::Name(v.output)), v.pass, v.fail, v.vacuous, v.unspecified, v.tightness});
    judged = judged || v.pass > 0 || v.fail > 0;
    failed = failed || v.fail > 0;
    if (v.fail > 0) result->findings.push_back(FromVerdict(v));
  }
  CompareInvalidRow(results, judgement.first_invalid_row, result);
  if (!judged && !Planted(HarnessDefect::kUnspecifiedPasses))
    result->verdict = oracle::Verdict::kVacuous;
  if (result->harness_fault.empty() && (failed ? options.arbiter : options.arbiter_on_pass)) {
    SecondOpinion opinion(problem, options.arbiter_cost);
    if (failed) {
      ArbitrateFailures(judgement.outputs, seen.first(random.size()), &opinion, result);
    } else {
      result->harness_fault = opinion.AskAll(seen.subspan(random.size()));
    }
    result->arbitrated = opinion.asked();
  }
  result->oracle_seconds += Seconds(start);
}

void StatusFinding(const RunOutcome& outcome, CaseResult* result) {
  Finding f;
  f.kind = FindingKind::kStatus;
  f.what = (outcome.status == RunStatus::kInvalid ? "a valid problem was refused: "
                                                  : "the target failed: ") +
           outcome.message;
  result->findings.push_back(std::move(f));
}

void Conclude(CaseResult* result) {
  std::stable_sort(result->findings.begin(), result->findings.end(),
                   [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
  if (!result->findings.empty()) result->verdict = oracle::Verdict::kFail;
}

}  // namespace

CaseResult Examine(OwnedProblem asked, const Target& target, const ExamineOptions& options) {
  CaseResult result;
  const OwnedProblem problem = WithoutWhatItLacks(target.description().capabilities, std::move(asked));
  if (auto reason = WhySkipped(target.description(), problem)) {
    result.verdict = oracle::Verdict::kSkipped;
    result.skip_reason = *reason;
    return result;
  }

  Runs runs(problem, target);
  const RunOutcome first = runs.Run(0);
  if (first.status == RunStatus::kUnsupported) {
    result.verdict = oracle::Verdict::kSkipped;
    result.skip_reason = "the target: " + first.message;
    return result;
  }
  for (const Placement::Damage& damage : runs.Inspect()) {
    Finding f;
    f.kind = damage.kind == Placement::Damage::Kind::kGuardBand ? FindingKind::kGuardBand
                                                                : FindingKind::kInputWritten;
    f.what = damage.what;
    result.findings.push_back(std::move(f));
  }
  if (first.status != RunStatus::kOk) {
    // A refusal is right, and its outputs are unspecified, where the data are invalid.
    if (first.status == RunStatus::kFailed || !HasInvalidRow(problem)) StatusFinding(first, &result);
    result.target_seconds = runs.seconds();
    Conclude(&result);
    return result;
  }

  const OutputBits first_bits = runs.Bits();
  const RunOutcome second = runs.Run(1);
  result.target_seconds = runs.seconds();
  if (second.status != RunStatus::kOk) {
    StatusFinding(second, &result);
    Conclude(&result);
    return result;
  }
  const Capabilities& can = target.description().capabilities;
  const OutputBits second_bits = runs.Bits();
  CompareRuns(problem, first_bits, second_bits, can.deterministic, &result.findings);
  JudgeOutputs(runs, target, options, &result);
  if (can.batch_invariant && problem.rows() >= 2) {
    const auto row =
        static_cast<int64_t>(Mix(options.seed, 99) % static_cast<uint64_t>(problem.rows()));
    CompareAlone(problem, target, second_bits, row, &result);
  }
  Conclude(&result);
  return result;
}

}  // namespace plumbline::fuzz
