// SPDX-License-Identifier: Apache-2.0
#include "fuzz/tally.h"

#include <algorithm>
#include <utility>

namespace plumbline::fuzz {
namespace {

// The largest wins, and a NaN (a harness that lost count) over everything.
void Raise(std::map<std::string, double>* tightness, const std::string& output, double value) {
  const auto [entry, fresh] = tightness->try_emplace(output, value);
  if (!fresh && !(value <= entry->second)) entry->second = value;
}

std::optional<oracle::Verdict> VerdictFromName(std::string_view name) {
  for (const auto verdict :
       {oracle::Verdict::kPass, oracle::Verdict::kFail, oracle::Verdict::kSuspect,
        oracle::Verdict::kVacuous, oracle::Verdict::kUnspecified, oracle::Verdict::kSkipped}) {
    if (oracle::Name(verdict) == name) return verdict;
  }
  return std::nullopt;
}

}  // namespace

CaseRecord RecordOf(const CaseResult& result, bool retried) {
  CaseRecord record;
  record.verdict = result.verdict;
  record.skip_reason = result.skip_reason;
  record.retried = retried;
  record.fault = !result.harness_fault.empty();
  for (const Finding& finding : result.findings) {
    std::string signature = finding.Signature();
    if (std::find(record.signatures.begin(), record.signatures.end(), signature) ==
        record.signatures.end()) {
      record.signatures.push_back(std::move(signature));
    }
  }
  for (const OutputSummary& output : result.outputs) {
    // An output of which no element was judged has no tightness, rather than the best one.
    if (output.pass + output.fail > 0) Raise(&record.tightness, output.output, output.tightness);
    record.elements[0] += output.pass;
    record.elements[1] += output.fail;
    record.elements[2] += output.vacuous;
    record.elements[3] += output.unspecified;
  }
  return record;
}

Json ToJson(const CaseRecord& record) {
  Json json;
  json["v"] = Name(record.verdict);
  if (!record.skip_reason.empty()) json["skip"] = record.skip_reason;
  if (record.retried) json["retried"] = true;
  if (record.fault) json["fault"] = true;
  for (const std::string& signature : record.signatures) json["f"].Append(signature);
  for (const auto& [output, tightness] : record.tightness) json["t"][output] = tightness;
  for (const int64_t count : record.elements) json["e"].Append(count);
  return json;
}

std::optional<CaseRecord> CaseRecordFromJson(const Json& json) {
  CaseRecord record;
  const Json* verdict = json.Find("v");
  const Json* elements = json.Find("e");
  if (verdict == nullptr || verdict->as_string() == nullptr) return std::nullopt;
  const std::optional<oracle::Verdict> parsed = VerdictFromName(*verdict->as_string());
  if (!parsed) return std::nullopt;
  record.verdict = *parsed;
  if (elements == nullptr || elements->as_array() == nullptr ||
      elements->as_array()->size() != record.elements.size()) {
    return std::nullopt;
  }
  for (size_t i = 0; i < record.elements.size(); ++i) {
    const int64_t* count = (*elements->as_array())[i].as_int();
    if (count == nullptr) return std::nullopt;
    record.elements[i] = *count;
  }
  if (const Json* skip = json.Find("skip"); skip != nullptr && skip->as_string() != nullptr) {
    record.skip_reason = *skip->as_string();
  }
  record.retried = json.Find("retried") != nullptr;
  record.fault = json.Find("fault") != nullptr;
  if (const Json* signatures = json.Find("f");
      signatures != nullptr && signatures->as_array() != nullptr) {
    for (const Json& signature : *signatures->as_array()) {
      if (signature.as_string() == nullptr) return std::nullopt;
      record.signatures.push_back(*signature.as_string());
    }
  }
  if (const Json* tightness = json.Find("t");
      tightness != nullptr && tightness->as_object() != nullptr) {
    for (const auto& [output, value] : *tightness->as_object()) {
      const std::optional<double> number = value.as_number();
      if (!number) return std::nullopt;
      record.tightness[output] = *number;
    }
  }
  return record;
}

void Tally::Add(const CaseRecord& record) {
  ++cases;
  retried += record.retried ? 1 : 0;
  for (size_t i = 0; i < elements.size(); ++i) elements[i] += record.elements[i];
  for (const auto& [output, value] : record.tightness) Raise(&tightness, output, value);
  for (const std::string& signature : record.signatures) ++signatures[signature];
  if (record.fault) {
    ++faults;
    return;
  }
  switch (record.verdict) {
    case oracle::Verdict::kPass:
      ++pass;
      break;
    case oracle::Verdict::kFail:
    case oracle::Verdict::kSuspect:
      ++fail;
      break;
    case oracle::Verdict::kSkipped:
      ++skipped;
      ++skip_reasons[record.skip_reason];
      break;
    case oracle::Verdict::kVacuous:
    case oracle::Verdict::kUnspecified:
      ++vacuous;
      break;
  }
}

void Tally::Add(const Tally& other) {
  cases += other.cases;
  pass += other.pass;
  fail += other.fail;
  skipped += other.skipped;
  vacuous += other.vacuous;
  faults += other.faults;
  retried += other.retried;
  for (size_t i = 0; i < elements.size(); ++i) elements[i] += other.elements[i];
  for (const auto& [output, value] : other.tightness) Raise(&tightness, output, value);
  for (const auto& [signature, count] : other.signatures) signatures[signature] += count;
  for (const auto& [reason, count] : other.skip_reasons) skip_reasons[reason] += count;
}

Json ToJson(const Tally& tally) {
  Json json;
  json["cases"] = tally.cases;
  json["pass"] = tally.pass;
  json["fail"] = tally.fail;
  json["skipped"] = tally.skipped;
  json["vacuous"] = tally.vacuous;
  json["faults"] = tally.faults;
  json["retried"] = tally.retried;
  json["tightness"] = Json(Json::Object{});
  for (const auto& [output, value] : tally.tightness) json["tightness"][output] = value;
  json["signatures"] = Json(Json::Object{});
  for (const auto& [signature, count] : tally.signatures) json["signatures"][signature] = count;
  json["skip_reasons"] = Json(Json::Object{});
  for (const auto& [reason, count] : tally.skip_reasons) json["skip_reasons"][reason] = count;
  constexpr const char* kNames[] = {"pass", "fail", "vacuous", "unspecified"};
  for (size_t i = 0; i < tally.elements.size(); ++i) json["elements"][kNames[i]] = tally.elements[i];
  return json;
}

}  // namespace plumbline::fuzz
