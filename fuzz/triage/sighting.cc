// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/sighting.h"

#include <utility>

namespace plumbline::fuzz {
namespace {

std::string StringOf(const Json& json, std::string_view key) {
  const Json* member = json.Find(key);
  const std::string* text = member != nullptr ? member->as_string() : nullptr;
  return text != nullptr ? *text : std::string();
}

int64_t IntOf(const Json& json, std::string_view key) {
  const Json* member = json.Find(key);
  const int64_t* value = member != nullptr ? member->as_int() : nullptr;
  return value != nullptr ? *value : 0;
}

double NumberOf(const Json& json, std::string_view key) {
  const Json* member = json.Find(key);
  return member != nullptr ? member->as_number().value_or(0) : 0;
}

bool BoolOf(const Json& json, std::string_view key) {
  const Json* member = json.Find(key);
  return member != nullptr && member->as_bool() != nullptr && *member->as_bool();
}

}  // namespace

Json ToJson(const StoredFinding& kept) {
  Json json;
  json["file"] = kept.file;
  json["finding"] = ToJson(kept.finding);
  json["values_before"] = kept.values_before;
  json["values_after"] = kept.values_after;
  json["tried"] = kept.tried;
  json["accepted"] = kept.accepted;
  json["complete"] = kept.complete;
  json["seconds"] = kept.seconds;
  if (!kept.note.empty()) json["note"] = kept.note;
  return json;
}

std::optional<StoredFinding> StoredFindingFromJson(const Json& json) {
  const Json* finding = json.Find("finding");
  std::optional<Finding> parsed = finding != nullptr ? FindingFromJson(*finding) : std::nullopt;
  if (!parsed) return std::nullopt;
  return StoredFinding{.file = StringOf(json, "file"),
                       .finding = *std::move(parsed),
                       .values_before = IntOf(json, "values_before"),
                       .values_after = IntOf(json, "values_after"),
                       .tried = IntOf(json, "tried"),
                       .accepted = IntOf(json, "accepted"),
                       .complete = BoolOf(json, "complete"),
                       .seconds = NumberOf(json, "seconds"),
                       .note = StringOf(json, "note")};
}

Json ToJson(const Sighting& sighting) {
  Json json;
  json["target"] = sighting.target;
  json["signature"] = sighting.signature;
  json["item"] = sighting.item;
  json["recipe"] = sighting.recipe;
  if (!sighting.source.empty()) json["source"] = sighting.source;
  json["regime"] = sighting.regime;
  json["seconds"] = sighting.seconds;
  json["finding"] = ToJson(sighting.finding);
  json["reproduced"] = sighting.reproduced;
  for (const std::string& recipe : sighting.more) json["more"].Append(recipe);
  if (sighting.kept) json["kept"] = ToJson(*sighting.kept);
  return json;
}

std::optional<Sighting> SightingFromJson(const Json& json) {
  const Json* finding = json.Find("finding");
  std::optional<Finding> parsed = finding != nullptr ? FindingFromJson(*finding) : std::nullopt;
  if (!parsed) return std::nullopt;
  Sighting sighting{.target = StringOf(json, "target"),
                    .signature = StringOf(json, "signature"),
                    .item = IntOf(json, "item"),
                    .recipe = StringOf(json, "recipe"),
                    .source = StringOf(json, "source"),
                    .regime = StringOf(json, "regime"),
                    .seconds = NumberOf(json, "seconds"),
                    .finding = *std::move(parsed),
                    .reproduced = BoolOf(json, "reproduced"),
                    .more = {},
                    .kept = std::nullopt};
  if (sighting.target.empty() || sighting.signature.empty()) return std::nullopt;
  if (const Json* more = json.Find("more"); more != nullptr && more->as_array() != nullptr) {
    for (const Json& recipe : *more->as_array()) {
      if (recipe.as_string() != nullptr) sighting.more.push_back(*recipe.as_string());
    }
  }
  if (const Json* kept = json.Find("kept"); kept != nullptr) {
    sighting.kept = StoredFindingFromJson(*kept);
    if (!sighting.kept) return std::nullopt;
  }
  return sighting;
}

}  // namespace plumbline::fuzz
