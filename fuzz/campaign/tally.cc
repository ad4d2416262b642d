// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/tally.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/campaign/search/plan.h"
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

double Mean(const FitTally& fit) {
  return fit.cases == 0 ? 0 : fit.tightness / static_cast<double>(fit.cases);
}

Json NamedCounts(const ElementCounts& counts) {
  return Json::Object{
      {"pass", counts[0]}, {"fail", counts[1]}, {"vacuous", counts[2]}, {"unspecified", counts[3]}};
}

}  // namespace

void Tally::Add(const CaseRecord& record) {
  ++cases;
  if (record.regime != kCorpusRegime) {
    ++drawn;
    drawn_judged += record.Judged() ? 1 : 0;
  }
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
  suspect_elements += record.suspect;
  for (const auto& [contract, value] : record.fits) {
    FitTally& fit = fits[contract];
    ++fit.cases;
    fit.contradicted += value <= 1 ? 0 : 1;
    fit.tightness += value <= 1 ? value : 1;
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
    case oracle::Verdict::kSuspect:
      ++suspect;
      break;
    case oracle::Verdict::kSkipped:
      ++(Planted(HarnessDefect::kSkippedIsPassed) ? pass : skipped);
      ++skip_reasons[SkipGroup(record.skip_reason)];
      break;
    case oracle::Verdict::kVacuous:
    case oracle::Verdict::kUnspecified:
      ++(Planted(HarnessDefect::kVacuousIsPassed) ? pass : vacuous);
      break;
  }
}

ExitStatus Tally::Thinness() const {
  return drawn > 0 ? ThinOf(drawn_judged, drawn) : ThinOf(Judged(), cases);
}

std::string HowFewJudged(const Tally& tally) {
  const bool drawn = tally.drawn > 0;
  std::string text = Text("%" PRId64 " of %" PRId64, drawn ? tally.drawn_judged : tally.Judged(),
                          drawn ? tally.drawn : tally.cases) +
                     (drawn ? " drawn" : " stored") +
                     Text(" cases were judged (%" PRId64 " skipped, %" PRId64 " vacuous)",
                          tally.skipped, tally.vacuous);
  const auto most = std::ranges::max_element(tally.skip_reasons, {},
                                             [](const auto& reason) { return reason.second; });
  if (most != tally.skip_reasons.end()) {
    text += "; skipped most: " + most->first + Text(" (%" PRId64 ")", most->second);
  }
  return text;
}

std::string SkipGroup(std::string_view reason) {
  // WhySkipped says what the problem has, ": ", and the capability.
  constexpr std::string_view kCapability[] = {" is false", "_multiple is ", "_alignment is ",
                                              "not among its ", "temperature is "};
  for (const std::string_view words : kCapability) {
    const size_t at = reason.rfind(words), colon = reason.rfind(": ", at);
    if (at != reason.npos) {
      return std::string(colon == reason.npos ? reason : reason.substr(colon + 2));
    }
  }
  std::string group;
  bool number = false;
  for (const char c : reason) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) group += c;
    if (digit && !number) group += 'N';
    number = digit;
  }
  return group;
}

Json ToJson(const Tally& tally) {
  const auto object = [](const auto& map) { return Json::Object(map.begin(), map.end()); };
  Json json = Json::Object{{"cases", tally.cases},
                           {"judged", tally.Judged()},
                           {"drawn", tally.drawn},
                           {"drawn_judged", tally.drawn_judged},
                           {"pass", tally.pass},
                           {"fail", tally.fail},
                           {"suspect", tally.suspect},
                           {"suspect_elements", tally.suspect_elements},
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
  for (const auto& [contract, fit] : tally.fits) {
    json["contracts"][contract] = Json::Object{
        {"cases", fit.cases}, {"contradicted", fit.contradicted}, {"mean_tightness", Mean(fit)}};
  }
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

std::vector<std::string> ProposalOf(const Tally& tally, std::string_view held_to) {
  if (tally.fits.empty()) return {};
  const std::pair<const std::string, FitTally>* tightest = nullptr;
  std::string consistent, contradicted;
  const auto list = [](const std::string& name, const std::string& note, std::string* all) {
    *all += (all->empty() ? "" : ", ") + name + note;
  };
  for (const auto& entry : tally.fits) {
    const auto& [name, fit] = entry;
    // A sample of the cases is judged by all contracts, and every case by the one that is held to.
    const bool held = name == held_to;
    const int64_t against = std::max(fit.contradicted, held ? tally.fail + tally.suspect : 0);
    if (against > 0) {
      list(name, " (" + std::to_string(against) + ")", &contradicted);
      continue;
    }
    list(name, Text(" (%.2g)", Mean(fit)), &consistent);
    if (tightest == nullptr || Mean(fit) > Mean(tightest->second)) tightest = &entry;
  }
  std::vector<std::string> lines;
  if (!consistent.empty()) {
    lines.push_back("contracts consistent with " + std::to_string(tally.fits.begin()->second.cases) +
                    " cases (mean error/allowed): " + consistent);
  }
  if (!contradicted.empty()) lines.push_back("contracts contradicted (cases): " + contradicted);
  if (tally.fail == 0 && tally.suspect == 0 && tightest != nullptr && tightest->first != held_to) {
    lines.push_back("the tightest of them is " + tightest->first +
                    "; hold the target to it with --contract " + tightest->first);
  }
  return lines;
}

}  // namespace plumbline::fuzz
