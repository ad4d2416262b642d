// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/examination.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <string>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "oracle/budget/inputs.h"

namespace plumbline::fuzz {
namespace {

using oracle::Element;
using oracle::Failure;
using oracle::OutputVerdict;

std::string Requirement(const Element& e) {
  switch (e.expect) {
    case oracle::Expect::kPlusZero:
      return "exactly +0 is required";
    case oracle::Expect::kNaN:
    case oracle::Expect::kEmptyLse:
      return "NaN is required";
    case oracle::Expect::kPlusInf:
      return "+infinity is required";
    case oracle::Expect::kMinusInf:
      return "-infinity is required";
    default:
      return Allowed(e.value, e.bound) + " is required";
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
  f.what =
      Place(f.output, f.row, f.column) + " = " + Number(v.got) + " where " + Requirement(v.expected);
  if (f.kind == FindingKind::kSign) {
    f.what += f.output == "logprob" ? "; a log-probability is never positive"
                                    : "; an entropy is never negative";
  } else if (f.kind == FindingKind::kBound && std::isfinite(f.tightness)) {
    f.what += Text(" (off by %.3g times the bound)", f.tightness);
  }
  return f;
}

bool HasInvalidRow(const OwnedProblem& problem) {
  return oracle::LoadInputs(DenseView(problem)).first_invalid_row >= 0;
}

void CompareInvalidRow(int64_t got, int64_t expected, CaseResult* result) {
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
  f.failure = outcome.failure;
  result->findings.push_back(std::move(f));
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
    same->suspect += o.suspect;
    same->tightness = std::max(same->tightness, o.tightness);
  }
  all->conventions.Add(more.conventions);
  if (all->harness_fault.empty()) all->harness_fault = more.harness_fault;
  all->arbitrated += more.arbitrated;
  all->target_seconds += more.target_seconds;
  all->oracle_seconds += more.oracle_seconds;
  all->first_run_seconds += more.first_run_seconds;
}

}  // namespace

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

void AddDamage(const std::vector<Placement::Damage>& all, std::vector<Finding>* findings) {
  for (const Placement::Damage& damage : all) {
    Finding f;
    f.kind = damage.kind == Placement::Damage::Kind::kGuardBand ? FindingKind::kGuardBand
                                                                : FindingKind::kInputWritten;
    f.what = damage.what;
    findings->push_back(std::move(f));
  }
}

bool RunTwice(const OwnedProblem& problem, bool held_up, Runs* runs, CaseResult* result) {
  const RunOutcome first = runs->Run(0, false);
  if (first.status == RunStatus::kUnsupported) {
    result->verdict = oracle::Verdict::kSkipped;
    result->skip_reason = "the target: " + first.message;
    return false;
  }
  AddDamage(runs->Inspect(), &result->findings);
  result->target_seconds = result->first_run_seconds = runs->seconds();
  if (first.status != RunStatus::kOk) {
    // If the data are invalid, a refusal is right, and its outputs are unspecified.
    if (first.status == RunStatus::kFailed || !HasInvalidRow(problem)) {
      StatusFinding(first, result);
    } else {
      result->conventions.Note(oracle::Convention::kInvalidRow, true);
    }
    return false;
  }
  runs->KeepBits();
  const RunOutcome second = runs->Run(1, held_up);
  result->target_seconds = runs->seconds();
  if (second.status != RunStatus::kOk) {
    StatusFinding(second, result);
    return false;
  }
  runs->CompareBits(&result->findings);
  return true;
}

bool TakeJudgement(const TieredJudgement& tiered, std::optional<int64_t> first_invalid_row,
                   CaseResult* result) {
  const oracle::Judgement& judgement = tiered.judgement;
  result->harness_fault = judgement.fault;
  const bool failed = tiered.Failed();
  bool judged = false;
  for (size_t o = 0; o < judgement.outputs.size(); ++o) {
    const OutputVerdict& v = judgement.outputs[o];
    const int64_t suspect = tiered.suspect[o];
    result->outputs.push_back({std::string(oracle::Name(v.output)), v.pass, v.fail - suspect, v.vacuous,
                               v.unspecified, suspect, v.tightness});
    judged = judged || v.pass > 0 || v.fail > 0;
    result->conventions.Add(v.conventions);
    if (v.fail == 0) continue;
    result->findings.push_back(FromVerdict(v));
    if (!tiered.IsSuspect(o)) continue;
    result->findings.back().suspect = true;
    result->findings.back().what += ", by what is assumed of a contract that leaves keys out";
  }
  if (judgement.first_invalid_row >= 0 && !failed) {
    result->conventions.Note(oracle::Convention::kInvalidRow, false);
  }
  if (first_invalid_row) CompareInvalidRow(*first_invalid_row, judgement.first_invalid_row, result);
  if (!judged && !Planted(HarnessDefect::kUnspecifiedPasses)) {
    result->verdict = oracle::Verdict::kVacuous;
  }
  return !failed;
}

CaseResult Conclude(std::span<const Target* const> targets, std::vector<CaseResult> results) {
  CaseResult result;
  if (results.size() == 1) {
    result = std::move(results.front());
  } else {
    for (size_t i = 0; i < results.size(); ++i) {
      Merge(targets[i]->name(), std::move(results[i]), &result);
    }
  }
  if (targets.front()->description().contract.promises.definition) result.conventions = {};
  std::stable_sort(result.findings.begin(), result.findings.end(),
                   [](const Finding& a, const Finding& b) {
                     return std::pair(a.suspect, a.kind) < std::pair(b.suspect, b.kind);
                   });
  result.verdict = VerdictOf(result.findings, result.verdict);
  return result;
}

}  // namespace plumbline::fuzz
