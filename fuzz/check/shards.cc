// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/shards.h"

#include <algorithm>
#include <cinttypes>
#include <set>
#include <string_view>
#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/base/text.h"
#include "fuzz/check/dump.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr std::string_view kShardsKey = "shard_boundaries";
constexpr size_t kMostRanks = size_t{1} << 20;

std::string RefusedShards(const std::string& key, const Json* value, const std::string& why) {
  return "metadata \"" + std::string(kShardsKey) + "\": " + key + " is " +
         (value == nullptr ? "missing" : Printable(Abridged(value->Dump()))) + ", " + why;
}

// Integers of at least 0; nullopt for anything else.
std::optional<std::vector<int64_t>> Naturals(const Json* json) {
  const Json::Array* const array = json == nullptr ? nullptr : json->as_array();
  if (array == nullptr || array->size() > kMostRanks) return std::nullopt;
  std::vector<int64_t> values;
  for (const Json& each : *array) {
    if (each.as_int() == nullptr || *each.as_int() < 0) return std::nullopt;
    values.push_back(*each.as_int());
  }
  return values;
}

// The rows that the split divides: those of weight in the file, or those of hidden.
int64_t RowsDivided(const Dump& dump, Shards::Split split) {
  return split == Shards::Split::kRows ? dump.problem.rows() : dump.weight_rows;
}

std::string ReadBounds(const Json& json, const Dump& dump, Shards* shards) {
  const Json* const split = json.Find("split");
  const std::string* const word = split == nullptr ? nullptr : split->as_string();
  if (word == nullptr || (*word != "vocabulary" && *word != "rows")) {
    return RefusedShards("split", split, "not \"vocabulary\" or \"rows\"");
  }
  shards->split = *word == "rows" ? Shards::Split::kRows : Shards::Split::kVocabulary;
  const int64_t rows = RowsDivided(dump, shards->split);
  const Json* const bounds = json.Find("bounds");
  const auto numbers = Naturals(bounds);
  if (!numbers || numbers->size() < 2 || numbers->front() != 0 || numbers->back() != rows ||
      !std::ranges::is_sorted(*numbers)) {
    return RefusedShards("bounds", bounds, Text("not integers that rise from 0 to %" PRId64, rows));
  }
  shards->bounds = *numbers;
  const Json* const ranks = json.Find("ranks");
  const auto named = Naturals(ranks);
  if (!named || named->size() + 1 != numbers->size() ||
      std::set<int64_t>(named->begin(), named->end()).size() != named->size()) {
    return RefusedShards("ranks", ranks,
                         Text("not %zu different numbers, one a shard", numbers->size() - 1));
  }
  shards->ranks = *named;
  return {};
}

std::string ReadUnequal(const Json& json, Shards* shards) {
  const Json* const list = json.Find("unequal");
  if (list == nullptr) return {};
  const Json::Array* const entries = list->as_array();
  if (entries == nullptr) return RefusedShards("unequal", list, "not an array");
  for (const Json& entry : *entries) {
    const Json* const name = entry.Find("output");
    const auto output = std::ranges::find_if(oracle::kOutputs, [&](Output o) {
      return name != nullptr && name->as_string() != nullptr && *name->as_string() == oracle::Name(o);
    });
    if (output == std::end(oracle::kOutputs)) {
      return RefusedShards("unequal's output", name, "not an output");
    }
    Shards::Unequal unequal{*output, {}, 0, 0, 0};
    const auto ranks = Naturals(entry.Find("ranks"));
    const bool known = ranks && !ranks->empty() && std::ranges::all_of(*ranks, [&](int64_t rank) {
                         return std::ranges::find(shards->ranks, rank) != shards->ranks.end();
                       });
    if (!known) return RefusedShards("unequal's ranks", entry.Find("ranks"), "not ranks of this dump");
    unequal.ranks = *ranks;
    for (const auto& [key, place] :
         {std::pair("elements", &unequal.elements), std::pair("row", &unequal.row)}) {
      const Json* const number = entry.Find(key);
      if (number == nullptr || number->as_int() == nullptr || *number->as_int() < 0) {
        return RefusedShards(std::string("unequal's ") + key, number, "not a number of at least 0");
      }
      *place = *number->as_int();
    }
    const Json* const largest = entry.Find("largest");
    const std::optional<double> value = largest == nullptr ? std::nullopt : largest->as_number();
    if (!value) return RefusedShards("unequal's largest", largest, "not a number");
    unequal.largest = *value;
    shards->unequal.push_back(std::move(unequal));
  }
  return {};
}

std::string ReadLeftOut(const Json& json, Shards* shards) {
  const Json* const list = json.Find("left_out");
  if (list == nullptr) return {};
  const Json::Array* const lines = list->as_array();
  if (lines == nullptr) return RefusedShards("left_out", list, "not an array");
  for (const Json& line : *lines) {
    if (line.as_string() == nullptr) return RefusedShards("left_out", &line, "not a text");
    shards->left_out.push_back(Printable(Abridged(*line.as_string())));
  }
  return {};
}

}  // namespace

size_t Shards::ShardOf(int64_t row) const {
  const auto after = std::ranges::upper_bound(bounds, row);
  return static_cast<size_t>(after - bounds.begin()) - 1;
}

bool Shards::Divides(Output output) const {
  if (output == Output::kLoss) return false;
  return (output == Output::kGradWeight) == (split == Split::kVocabulary);
}

std::string ReadShards(const std::map<std::string, std::string>& metadata, Dump* dump) {
  const auto text = metadata.find(std::string(kShardsKey));
  if (text == metadata.end()) return {};
  std::string why;
  const std::optional<Json> json = Json::Parse(text->second, &why);
  if (!json) return "metadata \"" + std::string(kShardsKey) + "\": " + why;
  if (json->as_object() == nullptr) return RefusedShards("it", &*json, "not an object");
  Shards shards;
  if (why = ReadBounds(*json, *dump, &shards); !why.empty()) return why;
  if (why = ReadUnequal(*json, &shards); !why.empty()) return why;
  if (why = ReadLeftOut(*json, &shards); !why.empty()) return why;
  dump->shards = std::move(shards);
  return {};
}

}  // namespace plumbline::fuzz
