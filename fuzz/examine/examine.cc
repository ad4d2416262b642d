// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/examine.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <deque>
#include <span>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/examine/compare_runs.h"
#include "fuzz/examine/device_run.h"
#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/placement.h"
#include "fuzz/examine/second_opinion.h"
#include "oracle/budget/inputs.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {
namespace {

using oracle::Element;
using oracle::Failure;
using oracle::OutputVerdict;
using oracle::Watched;

constexpr int kRandomElements = 8;
// One case in this many is delayed on its device (fuzz/examine/device_run.h), since a delay takes as
// long as a run or two.
constexpr uint64_t kHeldUpEvery = 4;

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

// Runs a target on a problem in memory of its own, once over each poison.
class Runs {
 public:
  Runs(const OwnedProblem& problem, const Target& target) : placement_(problem), target_(target) {}

  // Before its first run a placement is new, and poisoned with 0.
  RunOutcome Run(int poison, bool held_up = false) {
    if (ran_ || poison != 0) placement_.Poison(poison);
    ran_ = true;
    const auto start = std::chrono::steady_clock::now();
    RunOutcome outcome = target_.device() != nullptr
                             ? RunThere(held_up)
                             : target_.Run(placement_.problem(), placement_.results());
    seconds_ += Seconds(start);
    return outcome;
  }
  // The damage of the last run.
  std::vector<Placement::Damage> Inspect() const {
    std::vector<Placement::Damage> damage = placement_.Inspect();
    damage.insert(damage.end(), scratch_damage_.begin(), scratch_damage_.end());
    return damage;
  }
  OutputBits Bits() const { return CopyBits(placement_.results()); }
  const Placement& placement() const { return placement_; }
  double seconds() const { return seconds_; }

 private:
  RunOutcome RunThere(bool held_up) {
    DeviceOutcome there = RunOnDevice(target_, held_up, &placement_);
    scratch_damage_ = std::move(there.damage);
    return std::move(there.run);
  }

  Placement placement_;
  const Target& target_;
  std::vector<Placement::Damage> scratch_damage_;
  bool ran_ = false;
  double seconds_ = 0;
};

bool HasInvalidRow(const OwnedProblem& problem) {
  return oracle::LoadInputs(DenseView(problem)).first_invalid_row >= 0;
}

// Asks the arbiter about the worst element of every failing output, and about the random ones.
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

void StatusFinding(const RunOutcome& outcome, CaseResult* result) {
  Finding f;
  f.kind = FindingKind::kStatus;
  f.what = (outcome.status == RunStatus::kInvalid ? "a valid problem was refused: "
                                                  : "the target failed: ") +
           outcome.message;
  result->findings.push_back(std::move(f));
}

// The examination of a case on one of its targets.
class Examination {
 public:
  Examination(const OwnedProblem& problem, const Target& target)
      : problem_(problem), target_(target), runs_(problem, target) {}

  // Steps 1 and 2 of fuzz/examine/examine.h. Returns false if there is nothing to judge. `held_up`
  // delays the second run: work that runs too early then meets the other poison, and its result differs
  // from the first run's.
  bool RunTwice(bool held_up) {
    const RunOutcome first = runs_.Run(0);
    if (first.status == RunStatus::kUnsupported) {
      result.verdict = oracle::Verdict::kSkipped;
      result.skip_reason = "the target: " + first.message;
      return false;
    }
    for (const Placement::Damage& damage : runs_.Inspect()) {
      Finding f;
      f.kind = damage.kind == Placement::Damage::Kind::kGuardBand ? FindingKind::kGuardBand
                                                                  : FindingKind::kInputWritten;
      f.what = damage.what;
      result.findings.push_back(std::move(f));
    }
    result.target_seconds = runs_.seconds();
    if (first.status != RunStatus::kOk) {
      // If the data are invalid, a refusal is right, and its outputs are unspecified.
      if (first.status == RunStatus::kFailed || !HasInvalidRow(problem_)) {
        StatusFinding(first, &result);
      }
      return false;
    }
    const OutputBits first_bits = runs_.Bits();
    const RunOutcome second = runs_.Run(1, held_up);
    result.target_seconds = runs_.seconds();
    if (second.status != RunStatus::kOk) {
      StatusFinding(second, &result);
      return false;
    }
    second_bits_ = runs_.Bits();
    CompareRuns(problem_, first_bits, second_bits_, target_.description().capabilities.deterministic,
                &result.findings);
    return true;
  }

  // Step 4: compares row `row` of the batch with the same row alone.
  void RunAlone(int64_t row) {
    OwnedProblem alone = SelectRows(problem_, {row});
    if (HasInvalidRow(alone)) return;
    alone.wanted.grad_weight = false;
    Runs runs(alone, target_);
    const RunOutcome outcome = runs.Run(0);
    result.target_seconds += runs.seconds();
    if (outcome.status == RunStatus::kUnsupported) return;
    if (outcome.status != RunStatus::kOk) {
      Finding f;
      f.kind = FindingKind::kStatus;
      f.row = row;
      f.what =
          Text("row %" PRId64 " alone was refused though its batch was not: ", row) + outcome.message;
      result.findings.push_back(std::move(f));
      return;
    }
    if (auto f = CompareRow(problem_, second_bits_, runs.Bits(), row)) {
      result.findings.push_back(*std::move(f));
    }
  }

  // Takes the oracle's judgement of the second run. Returns false if an element fails.
  bool Take(const oracle::Judgement& judgement) {
    result.harness_fault = judgement.fault;
    bool judged = false, failed = false;
    for (const OutputVerdict& v : judgement.outputs) {
      result.outputs.push_back(
          {std::string(oracle::Name(v.output)), v.pass, v.fail, v.vacuous, v.unspecified, v.tightness});
      judged = judged || v.pass > 0 || v.fail > 0;
      failed = failed || v.fail > 0;
      if (v.fail > 0) result.findings.push_back(FromVerdict(v));
    }
    CompareInvalidRow(results(), judgement.first_invalid_row, &result);
    if (!judged && !Planted(HarnessDefect::kUnspecifiedPasses)) {
      result.verdict = oracle::Verdict::kVacuous;
    }
    return !failed;
  }

  const kernel::Problem& problem() const { return runs_.placement().problem(); }
  const kernel::Results& results() const { return runs_.placement().results(); }
  const Target& target() const { return target_; }

  CaseResult result;

 private:
  const OwnedProblem& problem_;
  const Target& target_;
  Runs runs_;
  OutputBits second_bits_;
};

// Runs one sweep of the oracle for all targets, which have one contract. Its seconds and the arbiter's
// answers are put into the first target's result.
void JudgeOutputs(std::span<Examination* const> all, const ExamineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const kernel::Problem& problem = all.front()->problem();
  // Elements are picked before anything is known of the case, since the judge keeps no elements but
  // these.
  std::vector<Watched> random, watched;
  const kernel::Results& shapes = all.front()->results();
  if (options.arbiter) random = RandomElements(shapes, options.seed, kRandomElements);
  watched = random;
  if (options.arbiter_on_pass) {
    const std::vector<Watched> spread = SpreadElements(problem, shapes, options.seed);
    watched.insert(watched.end(), spread.begin(), spread.end());
  }
  std::vector<std::vector<Watched>> seen(all.size(), watched);
  std::vector<kernel::Results> results;
  for (const Examination* each : all) results.push_back(each->results());
  const std::vector<oracle::Judgement> judgements =
      oracle::JudgeTogether(problem, results, all.front()->target().description().contract, {}, seen);
  std::vector<size_t> failing;
  bool fault = false;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->Take(judgements[i])) failing.push_back(i);
    fault = fault || !all[i]->result.harness_fault.empty();
  }
  CaseResult& first = all.front()->result;
  if (!fault && (failing.empty() ? options.arbiter_on_pass : options.arbiter)) {
    SecondOpinion opinion(problem, options.arbiter_cost);
    for (const size_t i : failing) {
      ArbitrateFailures(judgements[i].outputs, std::span(seen[i]).first(random.size()), &opinion,
                        &all[i]->result);
      if (!all[i]->result.harness_fault.empty()) break;
    }
    if (failing.empty()) {
      first.harness_fault = opinion.AskAll(std::span(seen.front()).subspan(random.size()));
    }
    first.arbitrated = opinion.asked();
  }
  first.oracle_seconds += Seconds(start);
}

void Conclude(CaseResult* result) {
  std::stable_sort(result->findings.begin(), result->findings.end(),
                   [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
  if (!result->findings.empty()) result->verdict = oracle::Verdict::kFail;
}

// Adds `more`, the result of target `name`, to the results of others. A case is passed if all have
// passed it.
void Merge(const std::string& name, CaseResult more, CaseResult* all) {
  const auto rank = [](oracle::Verdict v) {
    return v == oracle::Verdict::kSkipped ? 2 : v == oracle::Verdict::kVacuous ? 1 : 0;
  };
  if (rank(more.verdict) > rank(all->verdict)) all->verdict = more.verdict;
  if (all->skip_reason.empty() && !more.skip_reason.empty()) {
    all->skip_reason = name + ": " + more.skip_reason;
  }
  for (Finding& f : more.findings) {
    f.what = name + ": " + f.what;
    all->findings.push_back(std::move(f));
  }
  for (const OutputSummary& o : more.outputs) {
    const auto same = std::find_if(all->outputs.begin(), all->outputs.end(),
                                   [&](const OutputSummary& s) { return s.output == o.output; });
    if (same == all->outputs.end()) {
      all->outputs.push_back(o);
      continue;
    }
    same->pass += o.pass;
    same->fail += o.fail;
    same->vacuous += o.vacuous;
    same->unspecified += o.unspecified;
    same->tightness = std::max(same->tightness, o.tightness);
  }
  if (all->harness_fault.empty()) all->harness_fault = more.harness_fault;
  all->arbitrated += more.arbitrated;
  all->target_seconds += more.target_seconds;
  all->oracle_seconds += more.oracle_seconds;
}

}  // namespace

CaseResult Examine(OwnedProblem asked, const Target& target, const ExamineOptions& options) {
  const Target* const only = &target;
  return Examine(std::move(asked), std::span(&only, 1), options);
}

CaseResult Examine(OwnedProblem asked, std::span<const Target* const> targets,
                   const ExamineOptions& options) {
  CaseResult result;
  const Description& description = targets.front()->description();
  const OwnedProblem problem = WithoutWhatItLacks(description.capabilities, std::move(asked));
  if (auto reason = WhySkipped(description, problem)) {
    result.verdict = oracle::Verdict::kSkipped;
    result.skip_reason = *reason;
    return result;
  }
  const bool held_up = Mix(options.seed, 77) % kHeldUpEvery == 0;
  std::deque<Examination> all;
  std::vector<Examination*> to_judge;
  for (const Target* target : targets) {
    if (all.emplace_back(problem, *target).RunTwice(held_up)) to_judge.push_back(&all.back());
  }
  if (!to_judge.empty()) JudgeOutputs(to_judge, options);
  if (description.capabilities.batch_invariant && problem.rows() >= 2) {
    const auto row =
        static_cast<int64_t>(Mix(options.seed, 99) % static_cast<uint64_t>(problem.rows()));
    for (Examination* each : to_judge) each->RunAlone(row);
  }
  if (targets.size() == 1) {
    result = std::move(all.front().result);
  } else {
    for (Examination& each : all) Merge(each.target().name(), std::move(each.result), &result);
  }
  Conclude(&result);
  return result;
}

}  // namespace plumbline::fuzz
