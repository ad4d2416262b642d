// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/json.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "fuzz/base/json_reader.h"

namespace plumbline::fuzz {
namespace {

using kernel::Reduction;

constexpr std::string_view kFormat = "plumbline-case";
constexpr int64_t kVersion = 1;
// Far beyond any offset that a finding has needed.
constexpr int64_t kMaxOffset = 65536;

struct ReductionName {
  Reduction reduction;
  std::string_view name;
};
constexpr std::array kReductions = {ReductionName{Reduction::kNone, "none"},
                                    ReductionName{Reduction::kSum, "sum"},
                                    ReductionName{Reduction::kMean, "mean"}};

void ReadReduction(JsonReader& reader, Reduction* reduction) {
  const Json* json = reader.Member("reduction");
  const std::string* name = json == nullptr ? nullptr : json->as_string();
  for (const ReductionName& r : kReductions) {
    if (name != nullptr && r.name == *name) {
      *reduction = r.reduction;
      return;
    }
  }
  reader.Wrong("reduction", json, "one of none, sum, mean");
}

std::string ReadProblem(const Json* json, OwnedProblem* p) {
  JsonReader reader(json, "problem", Presence::kRequired);
  reader.Read("ignore_index", &p->ignore_index);
  ReadReduction(reader, &p->reduction);
  JsonReader layout(reader.Member("layout"), "problem.layout", Presence::kRequired);
  layout.Read("weight_hidden_major", &p->layout.weight_hidden_major);
  layout.Read("hidden_padding", &p->layout.hidden_padding, 0, kMaxStride);
  layout.Read("weight_padding", &p->layout.weight_padding, 0, kMaxStride);
  layout.Read("label_offset", &p->layout.label_offset, 0, kMaxOffset);
  layout.Read("grad_stride", &p->layout.grad_stride, 0, kMaxStride);
  if (layout.Member("label_stride") != nullptr) {
    layout.Read("label_stride", &p->layout.label_stride, 0, kMaxStride);
  }
  if (layout.Member("offset") != nullptr) layout.Read("offset", &p->layout.offset, 0, kMaxOffset);
  if (layout.Member("reversed") != nullptr) layout.Read("reversed", &p->layout.reversed);
  if (layout.Member("hidden_broadcast") != nullptr) {
    layout.Read("hidden_broadcast", &p->layout.hidden_broadcast);
  }
  JsonReader wanted(reader.Member("wanted"), "problem.wanted", Presence::kRequired);
  wanted.Read("entropy", &p->wanted.entropy);
  wanted.Read("lse", &p->wanted.lse);
  wanted.Read("grad_hidden", &p->wanted.grad_hidden);
  wanted.Read("grad_weight", &p->wanted.grad_weight);
  wanted.Read("fp32_grads", &p->wanted.fp32_grads);
  reader.Adopt(layout);
  reader.Adopt(wanted);
  return reader.Error();
}

// Both are optional: a case older than states is new, and its bucket is unknown.
void ReadStateAndBucket(JsonReader& reader, Case* c) {
  if (const Json* json = reader.Member("state"); json != nullptr) {
    const std::string* name = json->as_string();
    const auto state = name == nullptr ? std::nullopt : CaseStateFromName(*name);
    if (!state) reader.Wrong("state", json, "one of new, confirmed, fixed, regression");
    c->state = state.value_or(CaseState::kNew);
  }
  if (const Json* json = reader.Member("bucket"); json != nullptr) {
    JsonReader bucket(json, "case.bucket", Presence::kRequired);
    bucket.Read("key", &c->bucket.key);
    bucket.Read("id", &c->bucket.id);
    // The id becomes part of a file's name.
    if (c->bucket.id.size() != 8 ||
        c->bucket.id.find_first_not_of("0123456789abcdef") != std::string::npos) {
      bucket.Wrong("id", json->Find("id"), "8 hexadecimal digits");
    }
    reader.Adopt(bucket);
  }
}

}  // namespace

Json ProblemToJson(const OwnedProblem& p) {
  Json json;
  json["ignore_index"] = Json(p.ignore_index);
  for (const ReductionName& r : kReductions) {
    if (r.reduction == p.reduction) json["reduction"] = Json(r.name);
  }
  Json& layout = json["layout"];
  layout["weight_hidden_major"] = Json(p.layout.weight_hidden_major);
  layout["hidden_padding"] = Json(p.layout.hidden_padding);
  layout["weight_padding"] = Json(p.layout.weight_padding);
  layout["label_offset"] = Json(p.layout.label_offset);
  layout["grad_stride"] = Json(p.layout.grad_stride);
  // These keys are written only if they differ from the default, so that cases older than the keys keep
  // their bytes.
  if (p.layout.label_stride != 1) layout["label_stride"] = Json(p.layout.label_stride);
  if (p.layout.offset != 0) layout["offset"] = Json(p.layout.offset);
  if (p.layout.reversed) layout["reversed"] = Json(true);
  if (p.layout.hidden_broadcast) layout["hidden_broadcast"] = Json(true);
  Json& wanted = json["wanted"];
  wanted["entropy"] = Json(p.wanted.entropy);
  wanted["lse"] = Json(p.wanted.lse);
  wanted["grad_hidden"] = Json(p.wanted.grad_hidden);
  wanted["grad_weight"] = Json(p.wanted.grad_weight);
  wanted["fp32_grads"] = Json(p.wanted.fp32_grads);
  return json;
}

Json CaseToJson(const Case& c, const Expansion* expansion) {
  Json json;
  json["format"] = Json(kFormat);
  json["version"] = Json(kVersion);
  json["state"] = Name(c.state);
  json["target"] = Json(c.target);
  json["why"] = Json(c.why);
  json["recipe"] = Json(c.recipe);
  json["finding"] = ToJson(c.finding);
  if (!c.bucket.id.empty()) {
    json["bucket"]["key"] = c.bucket.key;
    json["bucket"]["id"] = c.bucket.id;
  }
  if (expansion != nullptr) json["expansion"] = ToJson(*expansion);
  if (!c.extra.is_null()) json["extra"] = c.extra;
  json["problem"] = ProblemToJson(c.problem);
  return json;
}

std::string CaseFromJson(const Json& json, Case* c, std::optional<Expansion>* expansion) {
  JsonReader reader(&json, "case", Presence::kRequired);
  std::string format;
  int64_t version = kVersion;
  reader.Read("format", &format);
  if (format != kFormat) reader.Wrong("format", json.Find("format"), "\"plumbline-case\"");
  reader.Read("version", &version, kVersion, kVersion);
  ReadStateAndBucket(reader, c);
  reader.Read("target", &c->target);
  reader.Read("why", &c->why);
  reader.Read("recipe", &c->recipe);
  if (const Json* extra = reader.Member("extra"); extra != nullptr) {
    if (extra->as_object() == nullptr) reader.Wrong("extra", extra, "an object");
    c->extra = *extra;
  }
  const Json* json_finding = reader.Member("finding");
  if (const auto finding = json_finding == nullptr ? std::nullopt : FindingFromJson(*json_finding)) {
    c->finding = *finding;
  } else {
    reader.Wrong("finding", json_finding, "a finding");
  }
  const Json* problem = reader.Member("problem");
  const Json* stand_in = reader.Member("expansion");
  if (std::string why = reader.Error(); !why.empty()) return why;
  if (stand_in != nullptr) {
    if (std::string why = ExpansionFromJson(*stand_in, &expansion->emplace()); !why.empty()) return why;
  }
  return ReadProblem(problem, &c->problem);
}

}  // namespace plumbline::fuzz
