// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/tally.h"

#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/examine/conventions.h"

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
  return Json::Object{
      {"pass", counts[0]}, {"fail", counts[1]}, {"vacuous", counts[2]}, {"unspecified", counts[3]}};
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
  conventions.Add(record.conventions);
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

Json ToJson(const Tally& tally) {
  const auto object = [](const auto& map) { return Json::Object(map.begin(), map.end()); };
  Json json = Json::Object{{"cases", tally.cases},
                           {"pass", tally.pass},
                           {"fail", tally.fail},
                           {"skipped", tally.skipped},
                           {"vacuous", tally.vacuous},
                           {"faults", tally.faults},
                           {"retried", tally.retried},
                           {"tightness", object(tally.tightness)},
                           {"signatures", object(tally.signatures)},
                           {"skip_reasons", object(tally.skip_reasons)},
                           {"arbitrated", tally.arbitrated},
                           {"elements", NamedCounts(tally.elements)},
                           {"classes", Json::Array{}},
                           {"aims", Json::Object{}},
                           {"conventions", ConventionsJson(tally.conventions)}};
  std::map<std::string, std::map<std::string, ElementCounts>> aims;
  for (const auto& [case_class, mine] : tally.classes) {
    Json entry =
        Json::Object{{"class", case_class.name},  {"aim", case_class.aim}, {"dtype", case_class.dtype},
                     {"grads", case_class.grads}, {"cases", mine.cases},   {"outputs", Json::Object{}}};
    for (const auto& [output, counted] : mine.outputs) {
      Json& row = entry["outputs"][output];
      row = NamedCounts(counted.elements);
      // As in RecordOf, an output that was never judged has no tightness.
      if (counted.elements[0] + counted.elements[1] > 0) row["tightness"] = counted.tightness;
      AddCounts(counted.elements, &aims[case_class.aim][output]);
    }
    json["classes"].Append(std::move(entry));
  }
  for (const auto& [aim, outputs] : aims) {
    for (const auto& [output, counts] : outputs) json["aims"][aim][output] = NamedCounts(counts);
  }
  return json;
}

std::vector<std::string> ConventionsOf(const Tally& tally) {
  return ConventionLines(tally.conventions);
}

}  // namespace plumbline::fuzz
