// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/expansion.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <span>
#include <string_view>
#include <utility>

#include "fuzz/base/hash.h"
#include "fuzz/base/text.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

// The version of Expand. Any change to what a recipe line expands to needs a new number.
constexpr int64_t kGenerator = 1;

std::string Hexadecimal(uint64_t value) { return Text("%" PRIx64, value); }

bool ReadHexadecimal(const std::string& text, uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *value, 16);
  return result.ec == std::errc() && result.ptr == end;
}

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

Json OverridesJson(const Expansion& expansion) {
  Json json{Json::Array()};
  for (const Expansion::Override& o : expansion.overrides) {
    json.Append(Json::Array{Json(o.tensor), Json(o.index), Json(Hexadecimal(o.bits))});
  }
  return json;
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

uint64_t TensorHash(const OwnedProblem& problem) {
  Fnv1a hash;
  ForEachTensor(problem, [&](std::string_view name, const HostTensor* tensor) {
    if (tensor == nullptr) return;
    const uint64_t rank = tensor->shape.size();
    hash.Add(name);
    hash.Add(std::as_bytes(std::span(&tensor->dtype, 1)));
    hash.Add(std::as_bytes(std::span(&rank, 1)));
    hash.Add(std::as_bytes(std::span(tensor->shape)));
    hash.Add(tensor->bytes);
  });
  return hash.value();
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
  for (const RequiredTensor& m : kRequiredTensors) {
    if (!Differences(m.name, problem.*m.tensor, expanded.*m.tensor, &expansion.overrides)) {
      return std::nullopt;
    }
  }
  for (const OptionalTensor& m : kOptionalTensors) {
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
    const auto member = std::find_if(kOptionalTensors.begin(), kOptionalTensors.end(),
                                     [&](const OptionalTensor& m) { return m.name == name; });
    if (member == kOptionalTensors.end() || !(expanded.*member->tensor)) {
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
  for (const RequiredTensor& m : kRequiredTensors) problem->*m.tensor = std::move(expanded.*m.tensor);
  for (const OptionalTensor& m : kOptionalTensors) problem->*m.tensor = std::move(expanded.*m.tensor);
  return {};
}

void Fields(FieldVisitor& io, Expansion& expansion) {
  int64_t generator = kGenerator;
  io("generator", generator, kGenerator, kGenerator);
  io("recipe", expansion.recipe);
  io.As("check", Hexadecimal(expansion.check), [&](const std::string& check) {
    if (!ReadHexadecimal(check, &expansion.check)) io.Wrong("check", "hexadecimal digits");
  });
  io("absent", expansion.absent);
  Json overrides = OverridesJson(expansion);
  io.Verbatim("overrides", overrides);
  if (!io.reading()) return;
  const Json::Array* array = overrides.as_array();
  if (array == nullptr || array->size() > kMaxOverrides) {
    return io.Wrong("overrides", "an array of at most " + std::to_string(kMaxOverrides) + " elements");
  }
  for (const Json& item : *array) {
    std::string why = ReadOverride(item, &expansion.overrides.emplace_back());
    if (!why.empty()) io.Refuse("expansion.overrides: " + why);
  }
}

}  // namespace plumbline::fuzz
