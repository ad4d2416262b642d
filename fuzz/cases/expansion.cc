// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/expansion.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstring>
#include <string_view>
#include <utility>

#include "fuzz/base/json_reader.h"
#include "fuzz/base/text.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

// The version of Expand. Any change to what a recipe line expands to needs a new number.
constexpr int64_t kGenerator = 1;

struct Member {
  std::string_view name;
  HostTensor OwnedProblem::*tensor;
};
struct OptionalMember {
  std::string_view name;
  std::optional<HostTensor> OwnedProblem::*tensor;
};
constexpr std::array kMembers = {Member{"hidden", &OwnedProblem::hidden},
                                 Member{"weight", &OwnedProblem::weight},
                                 Member{"labels", &OwnedProblem::labels}};
constexpr std::array kOptional = {OptionalMember{"temperature", &OwnedProblem::temperature},
                                  OptionalMember{"grad_logprob", &OwnedProblem::grad_logprob},
                                  OptionalMember{"grad_entropy", &OwnedProblem::grad_entropy}};

template <class Problem, class Visitor>
void ForEachTensor(Problem& problem, const Visitor& visit) {
  for (const Member& member : kMembers) visit(member.name, &(problem.*member.tensor));
  for (const OptionalMember& member : kOptional) {
    auto& tensor = problem.*member.tensor;
    visit(member.name, tensor ? &*tensor : nullptr);
  }
}

std::string Hexadecimal(uint64_t value) { return Text("%" PRIx64, value); }

bool ReadHexadecimal(const std::string& text, uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *value, 16);
  return result.ec == std::errc() && result.ptr == end;
}

void Hash(const void* data, size_t size, uint64_t* hash) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) *hash = (*hash ^ bytes[i]) * 0x100000001b3u;
}
constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325u;

// Returns why such a recipe is not expanded; else an empty text. Parse has limited N*V, N*H and V*H to
// kMaxElements.
std::string TooMuch(const Recipe& r, const ExpansionLimits& limits) {
  const int64_t elements = r.n * r.h + r.v * r.h + 4 * r.n;  // four tensors have a number a row
  if (elements > limits.elements) {
    return Text("it expands to %" PRId64 " elements, at most %" PRId64 " are read", elements,
                limits.elements);
  }
  int64_t work = 0;
  if (__builtin_mul_overflow(std::max<int64_t>(r.n * r.v, 1), std::max<int64_t>(r.h, 1), &work) ||
      work > limits.work) {
    return Text("n*v*h = %" PRId64 "*%" PRId64 "*%" PRId64 ", at most %" PRId64 " is expanded", r.n,
                r.v, r.h, limits.work);
  }
  return {};
}

// Adds the differences between `tensor` and `expanded`. Returns false if there are too many.
bool Differences(std::string_view name, const HostTensor& tensor, const HostTensor& expanded,
                 std::vector<Expansion::Override>* overrides) {
  if (tensor.dtype != expanded.dtype || tensor.shape != expanded.shape) return false;
  if (tensor.bytes == expanded.bytes) return true;
  const int64_t size = tensor.size();
  for (int64_t i = 0; i < size; ++i) {
    const uint64_t bits = tensor.GetBits(i);
    if (bits == expanded.GetBits(i)) continue;
    if (overrides->size() == kMaxOverrides) return false;
    overrides->push_back({std::string(name), i, bits});
  }
  return true;
}

std::string ReadOverride(const Json& json, Expansion::Override* override) {
  const Json::Array* parts = json.as_array();
  if (parts == nullptr || parts->size() != 3 || (*parts)[0].as_string() == nullptr ||
      (*parts)[1].as_int() == nullptr || (*parts)[2].as_string() == nullptr ||
      !ReadHexadecimal(*(*parts)[2].as_string(), &override->bits)) {
    return Abridged(json.Dump()) + ", not [tensor, index, \"hexadecimal bits\"]";
  }
  override->tensor = *(*parts)[0].as_string();
  override->index = *(*parts)[1].as_int();
  return {};
}

std::string Apply(const Expansion::Override& override, OwnedProblem* problem) {
  HostTensor* found = nullptr;
  ForEachTensor(*problem, [&](std::string_view name, HostTensor* tensor) {
    if (name == override.tensor) found = tensor;
  });
  if (found == nullptr) {
    return "expansion.overrides: there is no tensor " + Abridged(Json(override.tensor).Dump());
  }
  const size_t width = 8 * kernel::SizeOf(found->dtype);
  if (override.index < 0 || override.index >= found->size()) {
    return "expansion.overrides: " + override.tensor +
           Text(" has %" PRId64 " elements, none %" PRId64, found->size(), override.index);
  }
  if (width < 64 && override.bits >> width != 0) {
    return "expansion.overrides: " + Hexadecimal(override.bits) + " has more than the " +
           std::to_string(width) + " bits of " + override.tensor;
  }
  found->SetBits(override.index, override.bits);
  return {};
}

}  // namespace

uint64_t Fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = kHashOfNothing;
  Hash(bytes.data(), bytes.size(), &hash);
  return hash;
}

uint64_t TensorHash(const OwnedProblem& problem) {
  uint64_t hash = kHashOfNothing;
  ForEachTensor(problem, [&](std::string_view name, const HostTensor* tensor) {
    if (tensor == nullptr) return;
    Hash(name.data(), name.size(), &hash);
    const auto dtype = static_cast<unsigned char>(tensor->dtype);
    Hash(&dtype, 1, &hash);
    const uint64_t rank = tensor->shape.size();
    Hash(&rank, sizeof rank, &hash);
    Hash(tensor->shape.data(), tensor->shape.size() * sizeof(int64_t), &hash);
    Hash(tensor->bytes.data(), tensor->bytes.size(), &hash);
  });
  return hash;
}

std::optional<Expansion> ExpansionOf(const OwnedProblem& problem, const std::string& recipe) {
  Recipe parsed;
  std::string ignored;
  if (recipe.empty() || !Parse(recipe, &parsed, &ignored) || !TooMuch(parsed, {}).empty()) {
    return std::nullopt;
  }
  // Shapes are compared before anything is expanded, since shrinking nearly always changes one.
  if (problem.hidden.shape != std::vector{parsed.n, parsed.h} ||
      problem.weight.shape != std::vector{parsed.v, parsed.h}) {
    return std::nullopt;
  }
  const OwnedProblem expanded = Expand(parsed);
  Expansion expansion;
  expansion.recipe = recipe;
  expansion.check = TensorHash(problem);
  for (const Member& m : kMembers) {
    if (!Differences(m.name, problem.*m.tensor, expanded.*m.tensor, &expansion.overrides)) {
      return std::nullopt;
    }
  }
  for (const OptionalMember& m : kOptional) {
    const auto& mine = problem.*m.tensor;
    const auto& other = expanded.*m.tensor;
    if (!mine && other) expansion.absent.emplace_back(m.name);
    if (!mine) continue;
    if (!other || !Differences(m.name, *mine, *other, &expansion.overrides)) return std::nullopt;
  }
  return expansion;
}

std::string Materialise(const Expansion& expansion, const ExpansionLimits& limits,
                        OwnedProblem* problem) {
  Recipe recipe;
  std::string why;
  if (!Parse(expansion.recipe, &recipe, &why)) return "expansion.recipe: " + Abridged(why);
  if (why = TooMuch(recipe, limits); !why.empty()) return "expansion.recipe: " + why;
  OwnedProblem expanded = Expand(recipe);
  for (const std::string& name : expansion.absent) {
    const auto member = std::find_if(kOptional.begin(), kOptional.end(),
                                     [&](const OptionalMember& m) { return m.name == name; });
    if (member == kOptional.end() || !(expanded.*member->tensor)) {
      return "expansion.absent: the recipe has no " + Abridged(Json(name).Dump()) + " to leave out";
    }
    (expanded.*member->tensor).reset();
  }
  for (const Expansion::Override& override : expansion.overrides) {
    if (why = Apply(override, &expanded); !why.empty()) return why;
  }
  if (const uint64_t check = TensorHash(expanded); check != expansion.check) {
    return "expansion.check is " + Hexadecimal(expansion.check) + ", what is expanded has " +
           Hexadecimal(check) + ": another generator wrote it, or it was changed by hand";
  }
  for (const Member& m : kMembers) problem->*m.tensor = std::move(expanded.*m.tensor);
  for (const OptionalMember& m : kOptional) problem->*m.tensor = std::move(expanded.*m.tensor);
  return {};
}

Json ToJson(const Expansion& expansion) {
  Json json;
  json["generator"] = kGenerator;
  json["recipe"] = expansion.recipe;
  json["check"] = Hexadecimal(expansion.check);
  json["absent"] = Json::Array();
  for (const std::string& name : expansion.absent) json["absent"].Append(name);
  json["overrides"] = Json::Array();
  for (const Expansion::Override& o : expansion.overrides) {
    json["overrides"].Append(Json::Array{Json(o.tensor), Json(o.index), Json(Hexadecimal(o.bits))});
  }
  return json;
}

std::string ExpansionFromJson(const Json& json, Expansion* expansion) {
  JsonReader reader(&json, "expansion", Presence::kRequired);
  int64_t generator = 0;
  std::string check;
  reader.Read("generator", &generator, kGenerator, kGenerator);
  reader.Read("recipe", &expansion->recipe);
  reader.Read("check", &check);
  if (!ReadHexadecimal(check, &expansion->check)) {
    reader.Wrong("check", json.Find("check"), "hexadecimal digits");
  }
  const Json* absent = reader.Member("absent");
  if (absent == nullptr || absent->as_array() == nullptr) {
    reader.Wrong("absent", absent, "an array");
  } else {
    for (const Json& name : *absent->as_array()) {
      if (name.as_string() == nullptr) {
        reader.Wrong("absent", &name, "a tensor's name");
        break;
      }
      expansion->absent.push_back(*name.as_string());
    }
  }
  const Json* overrides = reader.Member("overrides");
  if (overrides == nullptr || overrides->as_array() == nullptr ||
      overrides->as_array()->size() > kMaxOverrides) {
    reader.Wrong("overrides", overrides,
                 "an array of at most " + std::to_string(kMaxOverrides) + " elements");
  } else {
    for (const Json& item : *overrides->as_array()) {
      Expansion::Override& override = expansion->overrides.emplace_back();
      if (std::string why = ReadOverride(item, &override); !why.empty()) {
        return "expansion.overrides: " + why;
      }
    }
  }
  return reader.Error();
}

}  // namespace plumbline::fuzz
