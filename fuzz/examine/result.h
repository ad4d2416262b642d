// SPDX-License-Identifier: Apache-2.0
//
// The result of examining a case: findings, counts of elements, the verdict; and the lists of their
// fields.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
};

std::string_view Name(FindingKind kind);  // "bound", "non-finite", "sign", "not-zero", "unwritten", ...

struct Finding {
  FindingKind kind = FindingKind::kBound;
  std::string output;             // "logprob", "grad_weight", ...; empty where none is concerned
  int64_t row = -1, column = -1;  // the worst element's
  double got = 0, expected = 0, bound = 0, tightness = 0;
  std::string arbiter;         // 40 digits, where the arbiter was asked
  std::string arbiter_silent;  // why it was not asked about a value: "it would take about 12 s"
  std::string what;            // one sentence for a person

  // Two findings with the same signature are taken, until they are shrunk, to have one cause.
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
  oracle::ConventionsSeen conventions;  // empty of a target that promises the definition's
  std::string harness_fault;            // not empty: exit status 3
  int64_t arbitrated = 0;               // elements that the arbiter was asked about
  // expand_seconds is set by who expands the problem, the other two by Examine.
  double expand_seconds = 0, target_seconds = 0, oracle_seconds = 0;
};

Names VerdictNames();

void Fields(FieldVisitor& io, Finding& finding);
void Fields(FieldVisitor& io, OutputSummary& summary);
void Fields(FieldVisitor& io, CaseResult& result);

}  // namespace plumbline::fuzz
