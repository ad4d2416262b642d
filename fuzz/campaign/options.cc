// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/options.h"

#include <limits>
#include <utility>

namespace plumbline::fuzz {
std::optional<int64_t> CampaignOptions::Cases() const {
  const auto count = static_cast<int64_t>(targets.size());
  if (!recipe.empty()) return count;
  const int64_t each = GetBudget().cases;
  if (each == 0) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return each > kMost / count ? kMost : each * count;
}

Json ToJson(const CampaignOptions& options) {
  Json json;
  for (const std::string& target : options.targets) json["targets"].Append(target);
  json["seed"] = std::to_string(options.seed);  // as text: it may pass int64
  json["regime"] = options.regime;
  json["recipe"] = options.recipe;
  json["shard"] = Format(options.shard);
  json["blind"] = options.blind;
  json["corpus"] = options.corpus.string();
  json["corpus_cases"] = options.corpus_stamp.cases;
  json["corpus_hash"] = std::to_string(options.corpus_stamp.hash);
  json["budget"] = Format(options.GetBudget());
  json["stop_after"] = options.GetStopAfter();
  json["case_timeout_ms"] = int64_t{options.GetCaseTimeout().count()};
  json["started"] = options.started;
  return json;
}

std::optional<CampaignOptions> CampaignOptionsFromJson(const Json& json, std::string* error) {
  CampaignOptions options;
  const auto text = [&](std::string_view key) -> const std::string* {
    const Json* member = json.Find(key);
    const std::string* value = member != nullptr ? member->as_string() : nullptr;
    if (value == nullptr) *error = "no text '" + std::string(key) + "'";
    return value;
  };
  const auto integer = [&](std::string_view key) -> const int64_t* {
    const Json* member = json.Find(key);
    const int64_t* value = member != nullptr ? member->as_int() : nullptr;
    if (value == nullptr) *error = "no integer '" + std::string(key) + "'";
    return value;
  };
  const Json* targets = json.Find("targets");
  if (targets == nullptr || targets->as_array() == nullptr || targets->as_array()->empty()) {
    *error = "no list 'targets'";
    return std::nullopt;
  }
  for (const Json& target : *targets->as_array()) {
    if (target.as_string() == nullptr) {
      *error = "'targets' holds something else than text";
      return std::nullopt;
    }
    options.targets.push_back(*target.as_string());
  }
  const std::string* seed = text("seed");
  const std::string* regime = text("regime");
  const std::string* recipe = text("recipe");
  const std::string* shard = text("shard");
  const std::string* corpus = text("corpus");
  const std::string* corpus_hash = text("corpus_hash");
  const std::string* budget = text("budget");
  const std::string* started = text("started");
  const Json* blind = json.Find("blind");
  if (blind == nullptr || blind->as_bool() == nullptr) {
    *error = "no true or false 'blind'";
    return std::nullopt;
  }
  const int64_t* corpus_cases = integer("corpus_cases");
  const int64_t* stop_after = integer("stop_after");
  const int64_t* case_timeout = integer("case_timeout_ms");
  if (!seed || !regime || !recipe || !shard || !corpus || !corpus_hash || !corpus_cases || !budget ||
      !started || !stop_after || !case_timeout) {
    return std::nullopt;
  }
  const std::optional<uint64_t> parsed_seed = ParseSeed(*seed, error);
  const std::optional<uint64_t> parsed_hash = ParseSeed(*corpus_hash, error);
  const std::optional<Shard> parsed_shard = ParseShard(*shard, error);
  const std::optional<Budget> parsed_budget = ParseBudget(*budget, error);
  if (!parsed_seed || !parsed_hash || !parsed_shard || !parsed_budget) return std::nullopt;
  options.shard = *parsed_shard;
  options.blind = *blind->as_bool();
  options.corpus = *corpus;
  options.corpus_stamp = {.cases = *corpus_cases, .hash = *parsed_hash};
  options.seed = *parsed_seed;
  options.regime = *regime;
  options.recipe = *recipe;
  options.budget = *parsed_budget;
  options.started = *started;
  options.stop_after = *stop_after;
  options.case_timeout = std::chrono::milliseconds(*case_timeout);
  return options;
}

}  // namespace plumbline::fuzz
