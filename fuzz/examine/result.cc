// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <string_view>

#include "fuzz/examine/result.h"

namespace plumbline::fuzz {
namespace {

constexpr std::array<std::string_view, 12> kKinds = {
    "bound",         "non-finite", "sign",          "not-zero", "unwritten", "nondeterministic",
    "batch-variant", "guard-band", "input-written", "status",   "crash",     "hang"};

double NumberOr(const Json& json, std::string_view key, double fallback) {
  const Json* member = json.Find(key);
  return member != nullptr ? member->as_number().value_or(fallback) : fallback;
}

int64_t IntOr(const Json& json, std::string_view key, int64_t fallback) {
  const Json* member = json.Find(key);
  const int64_t* value = member != nullptr ? member->as_int() : nullptr;
  return value != nullptr ? *value : fallback;
}

std::string StringOr(const Json& json, std::string_view key) {
  const Json* member = json.Find(key);
  const std::string* value = member != nullptr ? member->as_string() : nullptr;
  return value != nullptr ? *value : std::string();
}

std::optional<oracle::Verdict> VerdictFromName(std::string_view name) {
  using oracle::Verdict;
  for (Verdict v :
       {Verdict::kPass, Verdict::kFail, Verdict::kVacuous, Verdict::kUnspecified, Verdict::kSkipped}) {
    if (oracle::Name(v) == name) return v;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(FindingKind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::optional<FindingKind> FindingKindFromName(std::string_view name) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i] == name) return static_cast<FindingKind>(i);
  }
  return std::nullopt;
}

std::string Finding::Signature() const {
  std::string signature(Name(kind));
  if (!output.empty()) signature += ":" + output;
  return signature;
}

Json ToJson(const Finding& f) {
  Json json;
  json["kind"] = Name(f.kind);
  if (!f.output.empty()) json["output"] = f.output;
  json["row"] = f.row;
  json["column"] = f.column;
  json["got"] = f.got;
  json["expected"] = f.expected;
  json["bound"] = f.bound;
  json["tightness"] = f.tightness;
  if (!f.arbiter.empty()) json["arbiter"] = f.arbiter;
  json["what"] = f.what;
  return json;
}

std::optional<Finding> FindingFromJson(const Json& json) {
  const auto kind = FindingKindFromName(StringOr(json, "kind"));
  if (!kind) return std::nullopt;
  Finding f;
  f.kind = *kind;
  f.output = StringOr(json, "output");
  f.row = IntOr(json, "row", -1);
  f.column = IntOr(json, "column", -1);
  f.got = NumberOr(json, "got", 0);
  f.expected = NumberOr(json, "expected", 0);
  f.bound = NumberOr(json, "bound", 0);
  f.tightness = NumberOr(json, "tightness", 0);
  f.arbiter = StringOr(json, "arbiter");
  f.what = StringOr(json, "what");
  return f;
}

Json ToJson(const CaseResult& r) {
  Json json;
  json["verdict"] = oracle::Name(r.verdict);
  if (!r.skip_reason.empty()) json["skip_reason"] = r.skip_reason;
  if (!r.harness_fault.empty()) json["harness_fault"] = r.harness_fault;
  if (r.arbitrated > 0) json["arbitrated"] = r.arbitrated;
  for (const Finding& f : r.findings) json["findings"].Append(ToJson(f));
  for (const OutputSummary& o : r.outputs) {
    Json summary;
    summary["output"] = o.output;
    summary["pass"] = o.pass;
    summary["fail"] = o.fail;
    summary["vacuous"] = o.vacuous;
    summary["unspecified"] = o.unspecified;
    summary["tightness"] = o.tightness;
    json["outputs"].Append(std::move(summary));
  }
  json["expand_seconds"] = r.expand_seconds;
  json["target_seconds"] = r.target_seconds;
  json["oracle_seconds"] = r.oracle_seconds;
  return json;
}

std::optional<CaseResult> CaseResultFromJson(const Json& json) {
  const auto verdict = VerdictFromName(StringOr(json, "verdict"));
  if (!verdict) return std::nullopt;
  CaseResult r;
  r.verdict = *verdict;
  r.skip_reason = StringOr(json, "skip_reason");
  r.harness_fault = StringOr(json, "harness_fault");
  r.arbitrated = IntOr(json, "arbitrated", 0);
  r.expand_seconds = NumberOr(json, "expand_seconds", 0);
  r.target_seconds = NumberOr(json, "target_seconds", 0);
  r.oracle_seconds = NumberOr(json, "oracle_seconds", 0);
  if (const Json* findings = json.Find("findings");
      findings != nullptr && findings->as_array() != nullptr) {
    for (const Json& item : *findings->as_array()) {
      auto f = FindingFromJson(item);
      if (!f) return std::nullopt;
      r.findings.push_back(std::move(*f));
    }
  }
  if (const Json* outputs = json.Find("outputs");
      outputs != nullptr && outputs->as_array() != nullptr) {
    for (const Json& item : *outputs->as_array()) {
      r.outputs.push_back({StringOr(item, "output"), IntOr(item, "pass", 0), IntOr(item, "fail", 0),
                           IntOr(item, "vacuous", 0), IntOr(item, "unspecified", 0),
                           NumberOr(item, "tightness", 0)});
    }
  }
  return r;
}

}  // namespace plumbline::fuzz
