// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/examine.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <deque>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/baseline/honest_errors.h"
#include "fuzz/baseline/small_cases.h"
#include "fuzz/examine/compare_runs.h"
#include "fuzz/examine/consistency_findings.h"
#include "fuzz/examine/device_run.h"
#include "fuzz/examine/examination.h"
#include "fuzz/examine/magnitude.h"
#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/placement.h"
#include "fuzz/examine/relation.h"
#include "fuzz/examine/second_opinion.h"
#include "fuzz/examine/tiers.h"
#include "fuzz/target/contracts.h"
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

// One case in this many, of at most this many multiply-adds, is also judged by each named contract
// (FitsOf): that takes as many sweeps of the oracle as there are contracts.
constexpr uint64_t kFitsEvery = 4;
constexpr int64_t kMostToFit = int64_t{1} << 20;

// True for a target whose contract may be another than the one that it is held to: it left keys out, or
// a named contract was put in its place.
bool MayFitAnother(const Target& target) {
  return target.description().assumptions.any() || !SplitTarget(target.name()).second.empty();
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// Runs a target on a problem in host memory of its own, once over each poison.
class HostRuns final : public Runs {
 public:
  HostRuns(const OwnedProblem& problem, const Target& target)
      : problem_(problem), placement_(problem), target_(target) {}

  // Before its first run a placement is new, and poisoned with 0.
  RunOutcome Run(int poison, bool held_up) override {
    if (ran_ || poison != 0) placement_.Poison(poison);
    ran_ = true;
    const auto start = std::chrono::steady_clock::now();
    RunOutcome outcome = target_.device() != nullptr
                             ? RunThere(held_up)
                             : target_.Run(placement_.problem(), placement_.results());
    seconds_ += Seconds(start);
    return outcome;
  }
  std::vector<Placement::Damage> Inspect() override {
    std::vector<Placement::Damage> damage = placement_.Inspect();
    damage.insert(damage.end(), scratch_damage_.begin(), scratch_damage_.end());
    return damage;
  }
  void KeepBits() override { bits_ = Bits(); }
  void CompareBits(std::vector<Finding>* findings) override {
    const OutputBits first = std::exchange(bits_, Bits());
    CompareRuns(problem_, first, bits_, target_.description().capabilities.deterministic, findings);
  }
  double seconds() const override { return seconds_; }
  const OutputBits& bits() const { return bits_; }  // of the last run that was kept or compared
  const Placement& placement() const { return placement_; }

 private:
  OutputBits Bits() const {
    return CopyBits(placement_.results(), !target_.description().contract.promises.definition);
  }
  RunOutcome RunThere(bool held_up) {
    DeviceOutcome there = RunOnDevice(target_, held_up, &placement_);
    scratch_damage_ = std::move(there.damage);
    return std::move(there.run);
  }

  const OwnedProblem& problem_;
  Placement placement_;
  const Target& target_;
  OutputBits bits_;
  std::vector<Placement::Damage> scratch_damage_;
  bool ran_ = false;
  double seconds_ = 0;
};

// Returns `count` of the rows, from `first` on, by a step that is coprime to their number: most have
// other neighbours than in the batch.
std::vector<int64_t> Strided(int64_t first, uint64_t seed, int64_t rows, int64_t count) {
  auto step = static_cast<int64_t>(Mix(seed, 98) % static_cast<uint64_t>(rows)) + 1;
  while (std::gcd(step, rows) != 1 || (step == 1 && rows > 2)) ++step;
  std::vector<int64_t> part;
  for (int64_t k = 0; k < count; ++k) part.push_back((first + k * (step % rows)) % rows);
  return part;
}

// The parts of a batch that are run again, as lists of rows: one row, by the seed; from kLongBatch to
// kLongestBatch rows also 15 more, each alone, and about half of all rows together, last first, unless
// that takes long. Where N has a multiple, so many rows take the place of one, and nothing else is run.
constexpr int64_t kLongBatch = 512, kLongestBatch = 8192, kRowsAlone = 16;
constexpr int64_t kMostLogitsRerun = int64_t{1} << 24;
std::vector<std::vector<int64_t>> PartsToRerun(uint64_t seed, int64_t rows, int64_t vocab,
                                               int64_t multiple) {
  const auto drawn = [&](uint64_t which) {
    return static_cast<int64_t>(Mix(seed, which) % static_cast<uint64_t>(rows));
  };
  if (multiple > 1) return {Strided(drawn(99), seed, rows, multiple)};
  std::vector<std::vector<int64_t>> parts = {{drawn(99)}};
  if (rows < kLongBatch || rows > kLongestBatch || rows * vocab > kMostLogitsRerun) return parts;
  for (int64_t k = 1; k < kRowsAlone; ++k) parts.push_back({drawn(1'000 + static_cast<uint64_t>(k))});
  std::vector<int64_t> half;
  for (int64_t i = rows - 1; i >= 0; --i) {
    if ((Mix(seed, 10'000 + static_cast<uint64_t>(i)) & 1) != 0) half.push_back(i);
  }
  if (!half.empty()) parts.push_back(std::move(half));
  return parts;
}

// Asks the arbiter about the worst element of every failing output, and about the random ones.
void ArbitrateFailures(const std::vector<OutputVerdict>& verdicts, std::span<const Watched> random,
                       SecondOpinion* opinion, CaseResult* result) {
  for (const OutputVerdict& v : verdicts) {
    if (v.fail == 0) continue;
    std::string digits, silent;
    result->harness_fault = opinion->Ask({v.output, v.row, v.column, v.expected, v.got, true},
                                         /*failed=*/true, &digits, &silent);
    if (!result->harness_fault.empty()) return;
    for (Finding& f : result->findings) {
      if (f.output != oracle::Name(v.output) || f.kind != KindOf(v.failure)) continue;
      f.arbiter = digits;
      f.arbiter_silent = silent;
    }
  }
  result->harness_fault = opinion->AskAll(random);
}

// The examination of a case on one of its targets.
class Examination {
 public:
  Examination(const OwnedProblem& problem, const Target& target)
      : problem_(problem), target_(target), runs_(problem, target) {}

  bool RunTwice(bool held_up) { return fuzz::RunTwice(problem_, held_up, &runs_, &result); }

  // Step 6: runs these rows of the batch without the others, and compares each until one differs.
  void RunPart(const std::vector<int64_t>& rows) {
    OwnedProblem alone = SelectRows(problem_, rows);
    if (oracle::LoadInputs(DenseView(alone)).first_invalid_row >= 0) return;
    alone.wanted.grad_weight = false;
    HostRuns runs(alone, target_);
    const RunOutcome outcome = runs.Run(0, false);
    result.target_seconds += runs.seconds();
    if (outcome.status == RunStatus::kUnsupported) return;
    if (outcome.status != RunStatus::kOk) {
      Finding f;
      f.kind = FindingKind::kStatus;
      f.row = rows.front();
      f.what = Text("%zu rows from row %" PRId64 " on were refused though their batch was not: ",
                    rows.size(), rows.front()) +
               outcome.message;
      f.failure = outcome.failure;
      result.findings.push_back(std::move(f));
      return;
    }
    runs.KeepBits();
    for (size_t at = 0; at < rows.size(); ++at) {
      const auto place = static_cast<int64_t>(at);
      if (auto f = CompareRow(problem_, runs_.bits(), runs.bits(), rows[at], place)) {
        result.findings.push_back(*std::move(f));
        return;
      }
    }
  }

  // Step 5.
  void CheckOutputs() { AddConsistencyFindings(target_.description(), problem(), results(), &result); }

  // Step 7.
  void Relate(const ExamineOptions& options) {
    const RunProblem run = [&](const OwnedProblem& problem, int poison) {
      HostRuns runs(problem, target_);
      Ran ran{runs.Run(poison, false), {}};
      result.target_seconds += runs.seconds();
      if (ran.outcome.status == RunStatus::kOk) runs.KeepBits();
      ran.bits = runs.bits();
      return ran;
    };
    for (const Relation* relation : RelationsToTry(options.seed, options.relation)) {
      RelationChecked checked = CheckRelation(*relation, problem_, runs_.bits(), target_.description(),
                                              {options.seed, options.same_shape}, run);
      std::move(checked.findings.begin(), checked.findings.end(), std::back_inserter(result.findings));
      if (checked.compared > 0) return;
    }
  }

  bool Take(const TieredJudgement& judgement) {
    std::optional<int64_t> said;
    if (const auto& tensor = results().first_invalid_row) {
      said = oracle::ReadInt(kernel::AsConst(*tensor), 0);
    }
    return TakeJudgement(judgement, said, &result);
  }

  // As asked: the target's own copy may have been written to, which is a finding by itself.
  kernel::Problem problem() const { return DenseView(problem_); }
  const kernel::Results& results() const { return runs_.placement().results(); }
  const Target& target() const { return target_; }

  CaseResult result;

 private:
  const OwnedProblem& problem_;
  const Target& target_;
  HostRuns runs_;
};

// Says of findings about bounds which shortcut explains all of them, if one does.
void NameShortcut(const kernel::Problem& problem, const kernel::Results& results,
                  const oracle::Contract& contract, std::vector<Finding>* findings) {
  std::vector<oracle::Output> failing;
  for (const Finding& f : *findings) {
    if (f.kind == FindingKind::kNonFinite) return;  // no rounding makes these
    if (f.kind != FindingKind::kBound) continue;
    const auto o = std::ranges::find(oracle::kOutputs, f.output, [](auto each) { return Name(each); });
    if (o == oracle::kOutputs.end() || *o == oracle::Output::kLoss) continue;
    if (std::ranges::find(failing, *o) == failing.end()) failing.push_back(*o);
  }
  if (failing.empty()) return;
  const std::string shortcut = ShortcutOfSmallCase(problem, results, contract, failing);
  for (Finding& f : *findings) {
    if (f.kind == FindingKind::kBound && !shortcut.empty()) f.shortcut = shortcut;
  }
}

// Marks the findings about bounds of outputs that have values which no known rounding explains. A
// suspect one breaks what is assumed and nothing that is declared: what is left of it beside a rounding
// tells less still, and honest plug-ins that declare nothing had such findings.
void TellApart(const kernel::Problem& problem, const kernel::Results& results,
               const oracle::Contract& contract, std::vector<Finding>* findings) {
  for (Finding& f : *findings) {
    const auto o = std::ranges::find(oracle::kOutputs, f.output, [](auto each) { return Name(each); });
    if (f.kind != FindingKind::kBound || f.suspect || o == oracle::kOutputs.end()) continue;
    if (*o == oracle::Output::kLoss) continue;
    f.unexplained = LeavesUnexplained(problem, results, contract, *o);
  }
}

// Runs one sweep of the oracle for all targets, which have one contract. Its seconds and the arbiter's
// answers are put into the first target's result.
void JudgeOutputs(std::span<Examination* const> all, const ExamineOptions& options) {
  if (options.observe) {
    options.observe(all.front()->results());
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  const kernel::Problem problem = all.front()->problem();
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
  const Description& description = all.front()->target().description();
  std::optional<HonestErrorTier> honest;
  if (options.honest_errors && all.size() == 1) {
    HonestErrorOptions of_tier;
    of_tier.seed = options.seed;
    honest.emplace(problem, results.front(), description.Assumed(), of_tier);
  }
  const std::vector<TieredJudgement> judgements =
      JudgeInTiers(description, [&](const oracle::Contract& contract) {
        return oracle::JudgeTogether(problem, results, contract, {}, seen, honest ? &*honest : nullptr);
      });
  std::vector<size_t> failing;
  bool fault = false;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->Take(judgements[i])) failing.push_back(i);
    fault = fault || !all[i]->result.harness_fault.empty();
  }
  CaseResult& first = all.front()->result;
  if (honest && !fault) {
    const HonestErrors errors = honest->Compare();
    AddMagnitudes(errors, &first.findings);
    first.honest = RatiosOf(errors, options.unit_ratios);
  }
  if (!fault && (failing.empty() ? options.arbiter_on_pass : options.arbiter)) {
    const oracle::Contract& declared = description.contract;
    SecondOpinion opinion(problem, options.arbiter_cost, declared.promises,
                          oracle::StepsOf(declared, problem.hidden.dtype));
    for (const size_t i : failing) {
      ArbitrateFailures(judgements[i].judgement.outputs, std::span(seen[i]).first(random.size()),
                        &opinion, &all[i]->result);
      if (!all[i]->result.harness_fault.empty()) break;
      const auto passes = [&](const oracle::Contract& contract, oracle::Output output) {
        kernel::Results only;
        oracle::Find(&only, output) = oracle::Find(results[i], output);
        return oracle::JudgeProblem(problem, only, contract).outputs.front().fail == 0;
      };
      AddReadings(description, passes, &all[i]->result.findings);
      NameShortcut(problem, results[i], description.Assumed(), &all[i]->result.findings);
    }
    if (failing.empty()) {
      first.harness_fault = opinion.AskAll(std::span(seen.front()).subspan(random.size()));
    }
    first.arbitrated = opinion.asked();
  }
  if (!fault && !failing.empty() && options.tell_apart && all.size() == 1) {
    TellApart(problem, results.front(), description.Assumed(), &first.findings);
  }
  const int64_t work = problem.rows() * problem.vocab() * problem.hidden_size();
  if (!fault && all.size() == 1 && MayFitAnother(all.front()->target()) &&
      Mix(options.seed, 55) % kFitsEvery == 0 && work <= kMostToFit) {
    first.fits = FitsOf(problem, results.front());
  }
  first.oracle_seconds += Seconds(start);
}

}  // namespace

CaseResult Examine(OwnedProblem asked, const Target& target, const ExamineOptions& options) {
  const Target* const only = &target;
  return Examine(std::move(asked), std::span(&only, 1), options);
}

CaseResult Examine(OwnedProblem asked, std::span<const Target* const> targets,
                   const ExamineOptions& options) {
  const Description& description = targets.front()->description();
  const OwnedProblem problem = WithoutWhatItLacks(description.capabilities, std::move(asked));
  if (auto reason = WhySkipped(description, problem)) {
    CaseResult result;
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
  if (options.observe) to_judge.clear();  // nothing else is asked
  for (Examination* each : to_judge) each->CheckOutputs();
  if (description.capabilities.batch_invariant && problem.rows() >= 2) {
    for (const std::vector<int64_t>& rows :
         PartsToRerun(options.seed, problem.rows(), problem.vocab(),
                      options.same_shape ? problem.rows() : description.capabilities.rows_multiple)) {
      for (Examination* each : to_judge) each->RunPart(rows);
    }
  }
  for (Examination* each : to_judge) each->Relate(options);
  std::vector<CaseResult> results;
  for (Examination& each : all) results.push_back(std::move(each.result));
  return Conclude(targets, std::move(results));
}

}  // namespace plumbline::fuzz
