// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/options.h"

#include <charconv>
#include <ctime>
#include <limits>
#include <utility>

namespace plumbline::fuzz {
namespace {

struct Unit {
  std::string_view name;
  int64_t milliseconds;
};
constexpr int64_t kMostShards = 1'000'000;
constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}};

}  // namespace

std::optional<Budget> ParseBudget(std::string_view text, std::string* error) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const auto refuse = [&](std::string_view why) {
    *error = "budget '" + std::string(text) + "': " + std::string(why);
    return std::nullopt;
  };
  if (code != std::errc() || number <= 0) return refuse("expected a positive number and a unit");
  if (unit == "cases" || unit == "case")
    return Budget{.time = std::chrono::milliseconds(0), .cases = number};
  for (const Unit& u : kUnits) {
    if (unit != u.name) continue;
    if (number > std::numeric_limits<int64_t>::max() / 1'000'000 / u.milliseconds) {
      return refuse("longer than this clock can count");
    }
    return Budget{.time = std::chrono::milliseconds(number * u.milliseconds), .cases = 0};
  }
  return refuse("the unit is one of ms, s, m, h, cases");
}

std::string Format(const Budget& budget) {
  if (budget.cases > 0) return std::to_string(budget.cases) + "cases";
  const int64_t ms = budget.time.count();
  std::string text = std::to_string(ms) + "ms";
  for (const Unit& u : kUnits) {
    if (ms % u.milliseconds == 0) text = std::to_string(ms / u.milliseconds) + std::string(u.name);
  }
  return text;
}

std::optional<uint64_t> ParseSeed(std::string_view text, std::string* error) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  uint64_t seed = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, code] = std::from_chars(digits.data(), end, seed, hex ? 16 : 10);
  if (code != std::errc() || rest != end) {
    *error =
        "seed '" + std::string(text) + "': expected a number below 2^64, decimal or 0x hexadecimal";
    return std::nullopt;
  }
  return seed;
}

std::optional<Shard> ParseShard(std::string_view text, std::string* error) {
  const char* const end = text.data() + text.size();
  Shard shard;
  const auto [slash, code] = std::from_chars(text.data(), end, shard.number);
  const bool more = code == std::errc() && slash != end && *slash == '/';
  const auto [rest, second] = std::from_chars(more ? slash + 1 : end, end, shard.of);
  if (!more || second != std::errc() || rest != end || shard.number < 0 || shard.number >= shard.of ||
      shard.of > kMostShards) {
    *error = "shard '" + std::string(text) +
             "': expected I/N with 0 <= I < N <= " + std::to_string(kMostShards);
    return std::nullopt;
  }
  return shard;
}

std::string Format(const Shard& shard) {
  return std::to_string(shard.number) + "/" + std::to_string(shard.of);
}

std::optional<int64_t> ParseBytes(std::string_view text, std::string* error) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const int shift = unit == "MiB" ? 20 : unit == "GiB" ? 30 : -1;
  if (code == std::errc() && number == 0 && (unit.empty() || shift > 0)) return 0;
  if (code != std::errc() || number < 0 || shift < 0 ||
      number > std::numeric_limits<int64_t>::max() >> shift) {
    *error = "size '" + std::string(text) + "': expected a number and MiB or GiB, or 0 for no limit";
    return std::nullopt;
  }
  return number << shift;
}

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

std::string UtcStamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return {text, length};
}

}  // namespace plumbline::fuzz
