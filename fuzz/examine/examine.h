// SPDX-License-Identifier: Apache-2.0
//
// One case: a problem run on a target and judged by everything there is to judge it by.
//
//   1. outputs poisoned, guard bands set, run; guard bands and inputs inspected;
//   2. run again over another poison: same bits, and nothing left unwritten;
//   3. every output element against the oracle's bound;
//   4. one row rerun alone: same bits (batch invariance);
//   5. the arbiter is asked, if wanted: where the case fails, for the worst element of each output that
//      fails and 8 random ones; where it passes, for a few elements of one row or of all.
//
// A disagreement between reference and arbiter is a fault of the harness, never a finding.

#ifndef PLUMBLINE_FUZZ_EXAMINE_EXAMINE_H_
#define PLUMBLINE_FUZZ_EXAMINE_EXAMINE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/target.h"
#include "oracle/judge/verdict.h"
#include "oracle/output.h"

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
};

std::string_view Name(FindingKind kind);  // "bound", "non-finite", "sign", "not-zero", "unwritten", ...
std::optional<FindingKind> FindingKindFromName(std::string_view name);

struct Finding {
  FindingKind kind = FindingKind::kBound;
  std::string output;             // "logprob", "grad_weight", ...; empty where none is concerned
  int64_t row = -1, column = -1;  // of the worst element
  double got = 0, expected = 0, bound = 0, tightness = 0;
  std::string arbiter;  // 40 digits, where the arbiter was asked
  std::string what;     // one sentence for a person

  // Two findings with the same signature have, as far as can be told before shrinking, one cause.
  std::string Signature() const;  // "bound:logprob"
};

struct OutputSummary {
  std::string output;
  int64_t pass = 0, fail = 0, vacuous = 0, unspecified = 0;
  double tightness = 0;
};

struct CaseResult {
  oracle::Verdict verdict = oracle::Verdict::kPass;  // kPass, kFail, kSkipped; kVacuous: nothing judged
  std::string skip_reason;
  std::vector<Finding> findings;  // worst first; empty unless kFail
  std::vector<OutputSummary> outputs;
  std::string harness_fault;  // not empty: exit status 3
  int64_t arbitrated = 0;     // elements that the arbiter was asked about
  // Filled in by whoever expanded the problem; the other two by Examine.
  double expand_seconds = 0, target_seconds = 0, oracle_seconds = 0;
};

struct ExamineOptions {
  uint64_t seed = 0;             // picks the row rerun alone and the arbiter's random elements
  bool arbiter = true;           // false: while shrinking, between its first and last step
  bool arbiter_on_pass = false;  // also where nothing fails: fuzz/campaign/arbiter_schedule.h says when
  double arbiter_cost = 4e7;     // multiply-adds that the arbiter may spend on a case
};

CaseResult Examine(OwnedProblem problem, const Target& target, const ExamineOptions& options = {});
// Several targets whose descriptions differ in the name alone, at least one: each is run, and one
// evaluation of the oracle judges all. Passed is what all of them pass; what one of them declines is
// skipped. Findings say whose they are; counts of elements are added up.
CaseResult Examine(OwnedProblem problem, std::span<const Target* const> targets,
                   const ExamineOptions& options = {});

Json ToJson(const Finding& finding);
Json ToJson(const CaseResult& result);
std::optional<Finding> FindingFromJson(const Json& json);
std::optional<CaseResult> CaseResultFromJson(const Json& json);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_EXAMINE_EXAMINE_H_
