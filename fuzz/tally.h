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

#include "fuzz/examine.h"
#include "fuzz/json.h"

namespace plumbline::fuzz {

struct CaseRecord {
  oracle::Verdict verdict = oracle::Verdict::kPass;
  std::string skip_reason;
  bool retried = false;
  bool fault = false;
  std::vector<std::string> signatures;      // of its findings, worst first, none twice
  std::map<std::string, double> tightness;  // by output
  std::array<int64_t, 4> elements{};        // pass, fail, vacuous, unspecified
  bool operator==(const CaseRecord&) const = default;
};

CaseRecord RecordOf(const CaseResult& result, bool retried);
Json ToJson(const CaseRecord& record);
std::optional<CaseRecord> CaseRecordFromJson(const Json& json);

struct Tally {
  int64_t cases = 0, pass = 0, fail = 0, skipped = 0, vacuous = 0;  // cases = the other four + faults
  int64_t faults = 0, retried = 0;
  std::map<std::string, double> tightness;  // the largest, by output
  std::array<int64_t, 4> elements{};
  std::map<std::string, int64_t> signatures;  // cases that showed it
  std::map<std::string, int64_t> skip_reasons;

  void Add(const CaseRecord& record);
  void Add(const Tally& other);
};

Json ToJson(const Tally& tally);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TALLY_H_
