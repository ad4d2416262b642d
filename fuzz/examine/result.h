// SPDX-License-Identifier: Apache-2.0
//
// The result of examining a case: findings, counts of elements, the verdict; and the lists of their
// fields.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/fields.h"
#include "oracle/convention.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {

enum class FindingKind : uint8_t {
  kBound,             // an element is farther off than the contract allows
  kNonFinite,         // NaN or infinity where a finite value is required, or the reverse
  kSign,              // logprob > 0 or entropy < 0
  kNotZero,           // an element that must be +0 is not
  kUnwritten,         // an output element kept its poison
  kNondeterministic,  // two runs, different bits
  kBatchVariant,      // a row alone gives other bits than in its batch
  kGuardBand,         // a write outside a buffer, or into its padding
  kInputWritten,      // an input changed
  kStatus,            // the target refused or failed a problem that it must handle
  kCrash,             // the worker process died
  kHang,              // the worker process passed its deadline
  kRelation,          // a related problem gives other bits: fuzz/examine/relation.h
  kConsistency,       // outputs contradict each other: fuzz/examine/consistency_findings.h
  kMagnitude,         // most elements err more than honest kernels' do: fuzz/examine/magnitude.h
};

std::string_view Name(FindingKind kind);  // "bound", "non-finite", "sign", "not-zero", "unwritten", ...

// What stands in front of the kind in the signature of a finding that is Finding::unexplained.
inline constexpr std::string_view kUnexplained = "unexplained-";

// One way of reading a suspect finding, and the line of the target's contract that says so.
struct SuspectReading {
  std::string what, opt_out;  // "logprob is formed as x_y - lse", "\"plain_logprob\": true"
  bool operator==(const SuspectReading&) const = default;
};

struct Finding {
  FindingKind kind = FindingKind::kBound;
  // It breaks only what is assumed of a target that does not declare it (fuzz/target/assumptions.h).
  bool suspect = false;
  std::string output;             // "logprob", "grad_weight", ...; empty where none is concerned
  int64_t row = -1, column = -1;  // the worst element's
  double got = 0, expected = 0, bound = 0, tightness = 0;
  std::string arbiter;         // 40 digits, where the arbiter was asked
  std::string arbiter_silent;  // why it was not asked about a value: "it would take about 12 s"
  std::string what;            // one sentence for a person
  // "columns-permuted", or the check, "column-sums"; empty unless kind is kRelation or kConsistency.
  std::string relation;
  // What an honest kernel may do, if each makes a suspect output pass. Filled in where the arbiter was
  // wanted.
  std::vector<SuspectReading> readings;
  // The rounding that explains the values that are beyond their bounds in this case, in words
  // (fuzz/baseline/small_cases.h). Looked for where the arbiter was wanted.
  std::string shortcut;
  // A rounding explains other cases of this target, and not this one (ExamineOptions::tell_apart).
  bool unexplained = false;
  // What failed, of a kStatus without an output, in one word (RunOutcome::failure of
  // fuzz/target/target.h); empty in what was stored before failures were told apart.
  std::string failure;

  // Two findings with the same signature are taken, until they are shrunk, to have one cause. It is
  // "bound:logprob", "suspect-bound:lse", "relation:columns-permuted:lse",
  // "status:ValueError@loss.3fa2c1": FINDINGS.md says what it consists of.
  std::string Signature() const;
};

// True if who wrote `written` down, in a stored case or a file of known findings, means `signature`:
// the same, or "status", which was the signature of every failure before they were told apart.
bool Means(std::string_view written, std::string_view signature);

struct OutputSummary {
  std::string output;
  int64_t pass = 0, fail = 0, vacuous = 0, unspecified = 0, suspect = 0;
  double tightness = 0;  // the worst element's, by the contract that it fails or is judged by
};

// The largest error/bound of a case by a named contract; above 1 it contradicts that contract.
struct ContractFit {
  std::string contract;
  double tightness = 0;
};

// An output's errors in units of honest kernels'.
struct HonestRatio {
  std::string output;           // grad_weight twice: its rows of labels, and the others
  double ratio = 0;             // HonestUnits::Ratio
  double rms = 0, largest = 0;  // HonestUnits
  int64_t dropped = 0;          // units without a number, the target's or a baseline's
  // The error of each other unit, of a row say, in units of what an honest kernel errs there
  // (HonestUnits::ratios); where ExamineOptions::unit_ratios asks for them.
  std::vector<double> units;
};

struct CaseResult {
  // kPass, kFail, kSuspect: all findings are; kSkipped; kVacuous: nothing was judged
  oracle::Verdict verdict = oracle::Verdict::kPass;
  std::string skip_reason;
  std::vector<Finding> findings;  // worst first; empty unless kFail or kSuspect
  std::vector<OutputSummary> outputs;
  oracle::ConventionsSeen conventions;  // empty of a target that promises the definition's
  std::string harness_fault;            // not empty: exit status 3
  int64_t arbitrated = 0;               // elements that the arbiter was asked about
  std::vector<ContractFit> fits;        // by each named contract, where it was tried
  std::vector<HonestRatio> honest;      // of the outputs that the second tier compared
  std::string inference;  // JSON of an Inference (fuzz/infer/infer.h), where it was asked for
  // expand_seconds is set by who expands the problem, the others by Examine. target_seconds is of all
  // runs, first_run_seconds of the first one of the whole problem.
  double expand_seconds = 0, target_seconds = 0, oracle_seconds = 0, first_run_seconds = 0;
};

Names VerdictNames();

// kSuspect if all findings are, kFindings if not, kClean if there is none.
ExitStatus StatusOf(const std::vector<Finding>& findings);
// Returns whether the case was judged: its verdict is pass, fail or suspect, and the harness was not at
// fault.
bool IsJudged(const CaseResult& result);
// kFail if there is a finding that is not suspect, kSuspect if there are others, else `clean`.
oracle::Verdict VerdictOf(const std::vector<Finding>& findings, oracle::Verdict clean);

void Fields(FieldVisitor& io, SuspectReading& reading);
void Fields(FieldVisitor& io, ContractFit& fit);
void Fields(FieldVisitor& io, Finding& finding);
void Fields(FieldVisitor& io, OutputSummary& summary);
void Fields(FieldVisitor& io, HonestRatio& honest);
void Fields(FieldVisitor& io, CaseResult& result);

}  // namespace plumbline::fuzz
