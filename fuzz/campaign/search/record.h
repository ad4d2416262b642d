// SPDX-License-Identifier: Apache-2.0
//
// The record of a judged case: one line of the journal, and the only source of totals, coverage and
// search. So a resumed campaign has the same state as an uninterrupted one.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/examine/result.h"
#include "fuzz/recipe/class.h"

namespace plumbline::fuzz {

// Numbers of elements by verdict: pass, fail, vacuous, unspecified.
using ElementCounts = std::array<int64_t, 4>;

void AddCounts(const ElementCounts& counts, ElementCounts* sum);

struct CaseRecord {
  oracle::Verdict verdict = oracle::Verdict::kPass;
  std::string skip_reason;
  bool retried = false;
  bool fault = false;
  std::vector<std::string> signatures;      // its findings' signatures, worst first, none twice
  std::map<std::string, double> tightness;  // by output; five digits (RoundTightness)
  std::map<std::string, ElementCounts> by_output;
  oracle::ConventionsSeen conventions;  // CaseResult::conventions
  int64_t arbitrated = 0;
  int64_t suspect = 0;  // elements that break what is assumed alone
  std::map<std::string, double>
      fits;  // by named contract: the largest error/bound; above 1 contradicts
  // By output, where the second tier compared it: HonestRatio::ratio, the larger one of grad_weight's
  // two; five digits.
  std::map<std::string, double> honest;
  // The journal stores these beside the rest of the line, the first two as one small number.
  std::string regime;
  CaseClass case_class;
  int64_t us = 0;  // microseconds that judging it took, the arbiter left out
  bool operator==(const CaseRecord&) const = default;

  ElementCounts Elements() const;  // all outputs together
  bool Judged() const;             // not skipped, not vacuous and no fault
};

// `regime` and `us` are left for the caller to fill in.
CaseRecord RecordOf(const CaseResult& result, bool retried, const CaseClass& case_class);

// Rounds to five significant digits, so that a journal's line is short. A value on one side of 1 stays
// there.
double RoundTightness(double tightness);

// All but regime, case_class and us. A verdict of pass and values that are 0 or empty are left out, and
// an output without failing, vacuous and unspecified elements is shortened. An output's key is its
// letter in kOutputLetters.
void Fields(FieldVisitor& io, CaseRecord& record);

}  // namespace plumbline::fuzz
