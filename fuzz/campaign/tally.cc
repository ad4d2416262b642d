// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/tally.h"

#include <utility>

#include "fuzz/base/harness_defect.h"

namespace plumbline::fuzz {
namespace {

// Keeps the largest value. A NaN (an inconsistent count of the harness) takes precedence over
// everything.
void Raise(double* tightness, double value) {
  if (!(value <= *tightness)) *tightness = value;
}
void Raise(std::map<std::string, double>* tightness, const std::string& output, double value) {
  const auto [entry, fresh] = tightness->try_emplace(output, value);
  if (!fresh) Raise(&entry->second, value);
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

}  // namespace

void Tally::Add(const CaseRecord& record) {
  ++cases;
  retried += record.retried ? 1 : 0;
  arbitrated += record.arbitrated;
  AddCounts(record.Elements(), &elements);
  for (const auto& [output, value] : record.tightness) Raise(&tightness, output, value);
  for (const std::string& signature : record.signatures) ++signatures[signature];
  if (record.fault) {
    ++faults;
    return;
  }
  if (record.verdict != oracle::Verdict::kSkipped) {
    ClassTally& mine = classes[record.case_class];
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
      // As in RecordOf, an output that was never judged has no tightness.
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
