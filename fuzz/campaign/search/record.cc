// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/record.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "fuzz/examine/conventions.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

// The letters are in the order of oracle::kOutputs.
constexpr std::string_view kOutputLetters = "pleshw";
static_assert(kOutputLetters.size() == oracle::kOutputs.size());

std::string_view LetterOf(std::string_view output) {
  for (size_t i = 0; i < kOutputLetters.size(); ++i) {
    if (Name(oracle::kOutputs[i]) == output) return kOutputLetters.substr(i, 1);
  }
  return "?";
}

std::string_view OutputOf(std::string_view letter) {
  const size_t index = letter.size() == 1 ? kOutputLetters.find(letter) : std::string_view::npos;
  return index != std::string_view::npos ? Name(oracle::kOutputs[index]) : std::string_view();
}

// The forms are [pass], [pass, tightness] and [pass, fail, vacuous, unspecified(, tightness)].
Json OutputJson(const ElementCounts& counts, const double* tightness) {
  Json json;
  const bool plain = counts[1] == 0 && counts[2] == 0 && counts[3] == 0;
  for (size_t i = 0; i < (plain ? 1 : counts.size()); ++i) json.Append(counts[i]);
  if (tightness != nullptr) json.Append(*tightness);
  return json;
}

bool ReadOutput(const Json& json, const std::string& output, CaseRecord* record) {
  const Json::Array* parts = json.as_array();
  if (parts == nullptr || parts->empty() || parts->size() == 3 || parts->size() > 5) return false;
  const size_t counted = parts->size() < 4 ? 1 : 4;
  ElementCounts& counts = record->by_output[output];
  for (size_t i = 0; i < counted; ++i) {
    const int64_t* count = (*parts)[i].as_int();
    if (count == nullptr) return false;
    counts[i] = *count;
  }
  if (parts->size() == counted) return true;
  const std::optional<double> tightness = parts->back().as_number();
  if (tightness) record->tightness[output] = *tightness;
  return tightness.has_value();
}

bool ReadFits(const Json& json, CaseRecord* record) {
  const Json::Object* fits = json.as_object();
  if (fits == nullptr) return false;
  for (const auto& [contract, tightness] : *fits) {
    const std::optional<double> number = tightness.as_number();
    if (!number) return false;
    record->fits[contract] = *number;
  }
  return true;
}

Json HonestJson(const CaseRecord& record) {
  Json json;
  for (const auto& [output, ratio] : record.honest) json[LetterOf(output)] = ratio;
  return json;
}

bool ReadHonest(const Json& json, CaseRecord* record) {
  const Json::Object* outputs = json.as_object();
  if (outputs == nullptr) return false;
  for (const auto& [letter, ratio] : *outputs) {
    const std::string output(OutputOf(letter));
    const std::optional<double> number = ratio.as_number();
    if (output.empty() || !number) return false;
    record->honest[output] = *number;
  }
  return true;
}

Json OutputsJson(const CaseRecord& record) {
  Json json;
  for (const auto& [output, counts] : record.by_output) {
    const auto tightness = record.tightness.find(output);
    json[LetterOf(output)] =
        OutputJson(counts, tightness != record.tightness.end() ? &tightness->second : nullptr);
  }
  return json;
}

bool ReadOutputs(const Json& json, CaseRecord* record) {
  const Json::Object* outputs = json.as_object();
  if (outputs == nullptr) return false;
  for (const auto& [letter, counts] : *outputs) {
    const std::string output(OutputOf(letter));
    if (output.empty() || !ReadOutput(counts, output, record)) return false;
  }
  return true;
}

}  // namespace

void AddCounts(const ElementCounts& counts, ElementCounts* sum) {
  for (size_t i = 0; i < sum->size(); ++i) (*sum)[i] += counts[i];
}

ElementCounts CaseRecord::Elements() const {
  ElementCounts sum{};
  for (const auto& [output, counts] : by_output) AddCounts(counts, &sum);
  return sum;
}

bool CaseRecord::Judged() const {
  return !fault && (verdict == oracle::Verdict::kPass || verdict == oracle::Verdict::kFail ||
                    verdict == oracle::Verdict::kSuspect);
}

double RoundTightness(double tightness) {
  if (!std::isfinite(tightness)) return tightness;
  char text[32];
  const auto written =
      std::to_chars(std::begin(text), std::end(text), tightness, std::chars_format::general, 5);
  double rounded = 0;
  std::from_chars(text, written.ptr, rounded);
  return (rounded <= 1) == (tightness <= 1) ? rounded : tightness;
}

CaseRecord RecordOf(const CaseResult& result, bool retried, const CaseClass& case_class) {
  CaseRecord record;
  record.case_class = case_class;
  record.conventions = result.conventions;
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
  for (const ContractFit& fit : result.fits) record.fits[fit.contract] = RoundTightness(fit.tightness);
  for (const HonestRatio& honest : result.honest) {
    if (honest.ratio == 0 && honest.dropped > 0) continue;  // no unit has a number
    double& ratio = record.honest[honest.output];
    ratio = std::max(ratio, RoundTightness(honest.ratio));
  }
  for (const OutputSummary& output : result.outputs) {
    // An output of which no element was judged has no tightness, rather than the best one. A NaN (an
    // inconsistent count of the harness) takes precedence over everything.
    record.suspect += output.suspect;
    if (output.pass + output.fail + output.suspect > 0) {
      double& tightness =
          record.tightness.try_emplace(output.output, RoundTightness(output.tightness)).first->second;
      if (!(output.tightness <= tightness)) tightness = RoundTightness(output.tightness);
    }
    AddCounts({output.pass, output.fail, output.vacuous, output.unspecified},
              &record.by_output[output.output]);
  }
  return record;
}

void Fields(FieldVisitor& io, CaseRecord& record) {
  io.AllowUnknown();
  if (io.Has("v", record.verdict != oracle::Verdict::kPass)) io("v", record.verdict, VerdictNames());
  io.IfSet("skip", record.skip_reason);
  io.IfSet("retried", record.retried);
  io.IfSet("bad", record.fault);
  io.IfSet("f", record.signatures);
  if (io.Has("o", !record.by_output.empty())) {
    Json outputs = OutputsJson(record);
    io.Verbatim("o", outputs);
    if (io.reading() && !ReadOutputs(outputs, &record)) io.Wrong("o", "counts by output");
  }
  if (io.Has("c", !record.conventions.empty())) io("c", record.conventions);
  io.IfSet("a", record.arbitrated);
  io.IfSet("s", record.suspect);
  if (io.Has("u", !record.honest.empty())) {
    Json honest = HonestJson(record);
    io.Verbatim("u", honest);
    if (io.reading() && !ReadHonest(honest, &record)) io.Wrong("u", "ratios by output");
  }
  if (io.Has("fits", !record.fits.empty())) {
    Json fits = Json::Object(record.fits.begin(), record.fits.end());
    io.Verbatim("fits", fits);
    if (io.reading() && !ReadFits(fits, &record)) io.Wrong("fits", "numbers by contract");
  }
}

}  // namespace plumbline::fuzz
