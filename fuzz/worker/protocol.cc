// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/protocol.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/cases/file.h"
#include "fuzz/worker/brief_result.h"

namespace plumbline::fuzz {
namespace {

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> AsBytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Returns the member as text, or "" if it is absent or no string.
std::string Text(const Json& json, std::string_view key) {
  const Json* member = json.Find(key);
  const std::string* text = member != nullptr ? member->as_string() : nullptr;
  return text != nullptr ? *text : std::string();
}

}  // namespace

Request RequestFor(const OwnedProblem& problem, uint64_t seed) {
  Case c;
  c.problem = problem;
  c.extra = Json(Json::Object{});
  return {.recipe = {}, .case_file = SerializeCase(c), .seed = seed};
}

Request RequestFor(std::string recipe_line, uint64_t seed) {
  return {.recipe = std::move(recipe_line), .case_file = {}, .seed = seed};
}

std::vector<std::byte> Encode(const Hello& hello) {
  Json json;
  json["error"] = hello.error;
  json["name"] = hello.name;
  json["version"] = hello.version;
  json["device"] = hello.device;
  json["description"] = hello.description;
  return AsBytes(json.Dump());
}

std::vector<std::byte> Encode(const Request& request) {
  Json json;
  json["recipe"] = request.recipe;
  json["seed"] = static_cast<int64_t>(request.seed);
  json["arbiter"] = request.arbiter;
  json["arbiter_on_pass"] = request.arbiter_on_pass;
  std::vector<std::byte> bytes = AsBytes(json.Dump() + "\n");
  bytes.insert(bytes.end(), request.case_file.begin(), request.case_file.end());
  return bytes;
}

std::vector<std::byte> Encode(const CaseResult& result) {
  const std::optional<std::string> brief = Brief(result);
  return AsBytes(brief ? *brief : ToJson(result).Dump());
}

std::optional<Hello> DecodeHello(std::span<const std::byte> bytes, std::string* error) {
  const std::optional<Json> json = Json::Parse(AsText(bytes), error);
  if (!json) return std::nullopt;
  return Hello{.error = Text(*json, "error"),
               .name = Text(*json, "name"),
               .version = Text(*json, "version"),
               .device = Text(*json, "device"),
               .description = Text(*json, "description")};
}

std::optional<Request> DecodeRequest(std::span<const std::byte> bytes, std::string* error) {
  const auto newline = std::find(bytes.begin(), bytes.end(), std::byte{'\n'});
  if (newline == bytes.end()) {
    *error = "the request has no first line";
    return std::nullopt;
  }
  const auto head = static_cast<size_t>(newline - bytes.begin());
  const std::optional<Json> json = Json::Parse(AsText(bytes.first(head)), error);
  if (!json) return std::nullopt;
  const Json* seed = json->Find("seed");
  const Json* arbiter = json->Find("arbiter");
  const Json* on_pass = json->Find("arbiter_on_pass");
  if (seed == nullptr || seed->as_int() == nullptr || arbiter == nullptr ||
      arbiter->as_bool() == nullptr || on_pass == nullptr || on_pass->as_bool() == nullptr) {
    *error = "the request lacks seed, arbiter or arbiter_on_pass";
    return std::nullopt;
  }
  const auto rest = bytes.subspan(head + 1);
  return Request{.recipe = Text(*json, "recipe"),
                 .case_file = {rest.begin(), rest.end()},
                 .seed = static_cast<uint64_t>(*seed->as_int()),
                 .arbiter = *arbiter->as_bool(),
                 .arbiter_on_pass = *on_pass->as_bool()};
}

std::optional<CaseResult> DecodeResult(std::span<const std::byte> bytes, std::string* error) {
  if (std::optional<CaseResult> brief = CaseResultFromBrief(AsText(bytes))) return brief;
  const std::optional<Json> json = Json::Parse(AsText(bytes), error);
  if (!json) return std::nullopt;
  std::optional<CaseResult> result = CaseResultFromJson(*json);
  if (!result) *error = "the reply is no case result";
  return result;
}

}  // namespace plumbline::fuzz
