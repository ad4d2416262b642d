// SPDX-License-Identifier: Apache-2.0
//
// What is kept of a judged case (CaseRecord, one line of the journal) and the totals of many (Tally).
// Totals are computed from records alone, so a resumed campaign has the totals that an uninterrupted
// one would have.

#ifndef PLUMBLINE_FUZZ_TALLY_H_
#define PLUMBLINE_FUZZ_TALLY_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/case_class.h"
#include "fuzz/examine.h"
#include "fuzz/json.h"

namespace plumbline::fuzz {

// Elements by verdict: pass, fail, vacuous, unspecified.
using ElementCounts = std::array<int64_t, 4>;

struct CaseRecord {
  oracle::Verdict verdict = oracle::Verdict::kPass;
  std::string skip_reason;
  bool retried = false;
  bool fault = false;
  std::vector<std::string> signatures;      // of its findings, worst first, none twice
  std::map<std::string, double> tightness;  // by output
  ElementCounts elements{};
  // What was added to the format later; a journal without it leaves them empty.
  std::optional<CaseClass> case_class;
  std::map<std::string, ElementCounts> by_output;  // sums up to `elements`
  int64_t arbitrated = 0;
  bool operator==(const CaseRecord&) const = default;
};

CaseRecord RecordOf(const CaseResult& result, bool retried, const CaseClass& case_class);
Json ToJson(const CaseRecord& record);
std::optional<CaseRecord> CaseRecordFromJson(const Json& json);

struct OutputTally {
  double tightness = 0;  // the largest, of elements that passed or failed
  ElementCounts elements{};
};

struct ClassTally {
  int64_t cases = 0;  // that were neither skipped nor a fault
  std::map<std::string, OutputTally> outputs;
};

struct Tally {
  int64_t cases = 0, pass = 0, fail = 0, skipped = 0, vacuous = 0;  // cases = the other four + faults
  int64_t faults = 0, retried = 0;
  int64_t arbitrated =
      0;  // elements that the arbiter was asked about: the one number that depends on time
  std::map<std::string, double> tightness;  // the largest, by output
  ElementCounts elements{};
  std::map<CaseClass, ClassTally> classes;
  std::map<std::string, int64_t> signatures;  // cases that showed it
  std::map<std::string, int64_t> skip_reasons;

  void Add(const CaseRecord& record);
  void Add(const Tally& other);
};

Json ToJson(const Tally& tally);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TALLY_H_
