// SPDX-License-Identifier: Apache-2.0
#include "fuzz/tally.h"

#include <algorithm>
#include <utility>

#include "fuzz/mutation.h"

namespace plumbline::fuzz {
namespace {

// The largest wins, and a NaN (a harness that lost count) over everything.
void Raise(double* tightness, double value) {
  if (!(value <= *tightness)) *tightness = value;
}
void Raise(std::map<std::string, double>* tightness, const std::string& output, double value) {
  const auto [entry, fresh] = tightness->try_emplace(output, value);
  if (!fresh) Raise(&entry->second, value);
}

void AddCounts(const ElementCounts& counts, ElementCounts* sum) {
  for (size_t i = 0; i < sum->size(); ++i) (*sum)[i] += counts[i];
}

Json CountsJson(const ElementCounts& counts) {
  Json json;
  for (const int64_t count : counts) json.Append(count);
  return json;
}

bool ReadCounts(const Json& json, ElementCounts* counts) {
  if (json.as_array() == nullptr || json.as_array()->size() != counts->size()) return false;
  for (size_t i = 0; i < counts->size(); ++i) {
    const int64_t* count = (*json.as_array())[i].as_int();
    if (count == nullptr) return false;
    (*counts)[i] = *count;
  }
  return true;
}

Json NamedCounts(const ElementCounts& counts) {
  constexpr const char* kNames[] = {"pass", "fail", "vacuous", "unspecified"};
  Json json;
  for (size_t i = 0; i < counts.size(); ++i) json[kNames[i]] = counts[i];
  return json;
}

constexpr std::pair<const char*, std::string CaseClass::*> kClassKeys[] = {
    {"class", &CaseClass::name},
    {"aim", &CaseClass::aim},
    {"dtype", &CaseClass::dtype},
    {"grads", &CaseClass::grads}};

Json ToJson(const CaseClass& case_class) {
  Json json;
  for (const auto& [key, member] : kClassKeys) json[key] = case_class.*member;
  return json;
}

std::optional<CaseClass> CaseClassFromJson(const Json& json) {
  CaseClass case_class;
  for (const auto& [key, member] : kClassKeys) {
    const Json* value = json.Find(key);
    if (value == nullptr || value->as_string() == nullptr) return std::nullopt;
    case_class.*member = *value->as_string();
  }
  return case_class;
}

std::optional<oracle::Verdict> VerdictFromName(std::string_view name) {
  for (const auto verdict : {oracle::Verdict::kPass, oracle::Verdict::kFail, oracle::Verdict::kVacuous,
                             oracle::Verdict::kUnspecified, oracle::Verdict::kSkipped}) {
    if (oracle::Name(verdict) == name) return verdict;
  }
  return std::nullopt;
}

}  // namespace

CaseRecord RecordOf(const CaseResult& result, bool retried, const CaseClass& case_class) {
  CaseRecord record;
  record.case_class = case_class;
  record.arbitrated = result.arbitrated;
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
    const ElementCounts counts = {output.pass, output.fail, output.vacuous, output.unspecified};
    AddCounts(counts, &record.elements);
    AddCounts(counts, &record.by_output[output.output]);
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
  json["e"] = CountsJson(record.elements);
  if (record.case_class) json["c"] = ToJson(*record.case_class);
  for (const auto& [output, counts] : record.by_output) json["o"][output] = CountsJson(counts);
  if (record.arbitrated > 0) json["a"] = record.arbitrated;
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
  if (elements == nullptr || !ReadCounts(*elements, &record.elements)) return std::nullopt;
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
  if (const Json* case_class = json.Find("c")) {
    record.case_class = CaseClassFromJson(*case_class);
    if (!record.case_class) return std::nullopt;
  }
  if (const Json* outputs = json.Find("o"); outputs != nullptr && outputs->as_object() != nullptr) {
    for (const auto& [output, counts] : *outputs->as_object()) {
      if (!ReadCounts(counts, &record.by_output[output])) return std::nullopt;
    }
  }
  if (const Json* arbitrated = json.Find("a")) {
    if (arbitrated->as_int() == nullptr) return std::nullopt;
    record.arbitrated = *arbitrated->as_int();
  }
  return record;
}

void Tally::Add(const CaseRecord& record) {
  ++cases;
  retried += record.retried ? 1 : 0;
  arbitrated += record.arbitrated;
  AddCounts(record.elements, &elements);
  for (const auto& [output, value] : record.tightness) Raise(&tightness, output, value);
  for (const std::string& signature : record.signatures) ++signatures[signature];
  if (record.fault) {
    ++faults;
    return;
  }
  if (record.case_class && record.verdict != oracle::Verdict::kSkipped) {
    ClassTally& mine = classes[*record.case_class];
    ++mine.cases;
    for (const auto& [output, counts] : record.by_output) {
      AddCounts(counts, &mine.outputs[output].elements);
    }
    for (const auto& [output, value] : record.tightness) {
      Raise(&mine.outputs[output].tightness, value);
    }
  }
  switch (record.verdict) {
    case oracle::Verdict::kPass:
      ++pass;
      break;
    case oracle::Verdict::kFail:
      ++fail;
      break;
    case oracle::Verdict::kSkipped:
      ++(Planted(HarnessDefect::kSkippedIsPassed) ? pass : skipped);
      ++skip_reasons[record.skip_reason];
      break;
    case oracle::Verdict::kVacuous:
    case oracle::Verdict::kUnspecified:
      ++(Planted(HarnessDefect::kVacuousIsPassed) ? pass : vacuous);
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
  arbitrated += other.arbitrated;
  AddCounts(other.elements, &elements);
  for (const auto& [case_class, theirs] : other.classes) {
    ClassTally& mine = classes[case_class];
    mine.cases += theirs.cases;
    for (const auto& [output, tally] : theirs.outputs) {
      AddCounts(tally.elements, &mine.outputs[output].elements);
      Raise(&mine.outputs[output].tightness, tally.tightness);
    }
  }
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
  json["arbitrated"] = tally.arbitrated;
  json["elements"] = NamedCounts(tally.elements);
  json["classes"] = Json(Json::Array{});
  std::map<std::string, std::map<std::string, ElementCounts>> aims;
  for (const auto& [case_class, mine] : tally.classes) {
    Json entry = ToJson(case_class);
    entry["cases"] = mine.cases;
    entry["outputs"] = Json(Json::Object{});
    for (const auto& [output, counted] : mine.outputs) {
      Json& row = entry["outputs"][output];
      row = NamedCounts(counted.elements);
      // As in CaseRecord: what was never judged has no tightness.
      if (counted.elements[0] + counted.elements[1] > 0) row["tightness"] = counted.tightness;
      AddCounts(counted.elements, &aims[case_class.aim][output]);
    }
    json["classes"].Append(std::move(entry));
  }
  json["aims"] = Json(Json::Object{});
  for (const auto& [aim, outputs] : aims) {
    for (const auto& [output, counts] : outputs) json["aims"][aim][output] = NamedCounts(counts);
  }
  return json;
}

}  // namespace plumbline::fuzz
