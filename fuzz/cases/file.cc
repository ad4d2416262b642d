// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "fuzz/base/regular_file.h"
#include "fuzz/base/text.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/problem/safetensors.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kKey = "case";
constexpr std::string_view kFormat = "plumbline-case";
constexpr int64_t kVersion = 1;

// Everything in a case except the elements.
void CaseFields(FieldVisitor& io, Case& c, std::optional<Expansion>& expansion) {
  std::string format(kFormat);
  io("format", format);
  if (format != kFormat) io.Wrong("format", "\"plumbline-case\"");
  int64_t version = kVersion;
  io("version", version, kVersion, kVersion);
  // Both may be absent: a case older than states is new, and its bucket is unknown.
  if (io.Has("state", true)) io("state", c.state, kCaseStateNames);
  if (io.Has("bucket", !c.bucket.id.empty())) io("bucket", c.bucket);
  io("target", c.target);
  io("why", c.drawn_by);  // its name in files, which stay as they are, byte for byte
  io("recipe", c.recipe);
  io("finding", c.finding);
  if (io.Has("extra", !c.extra.is_null())) {
    io.Verbatim("extra", c.extra);
    if (c.extra.as_object() == nullptr) io.Wrong("extra", "an object");
  }
  io.IfSet("expansion", expansion);
  io("problem", c.problem);
}

// `expansion` replaces the tensors; it is absent if they are in the file.
std::string CaseToJson(const Case& c, std::optional<Expansion> expansion) {
  return WriteJson([&](FieldVisitor& io) { CaseFields(io, const_cast<Case&>(c), expansion); }).Dump();
}

std::string TakeTensors(std::map<std::string, HostTensor>* tensors, OwnedProblem* p) {
  const auto take = [&](std::string_view name) -> std::optional<HostTensor> {
    auto node = tensors->extract(std::string(name));
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  };
  for (const RequiredTensor& member : kRequiredTensors) {
    std::optional<HostTensor> taken = take(member.name);
    if (!taken) return "tensor \"" + std::string(member.name) + "\" is missing";
    p->*member.tensor = std::move(*taken);
  }
  for (const OptionalTensor& member : kOptionalTensors) p->*member.tensor = take(member.name);
  if (!tensors->empty()) {
    return "unknown tensor " + Abridged(Json(tensors->begin()->first).Dump());
  }
  return {};
}

// Limits the size of a case. A tensor without elements costs a file nothing, whatever its extents
// ([2^40, 0] is a valid weight that would be judged for ever), and padding costs it nothing either.
// Cases have the limits that recipes have. A wide stride (fuzz/examine/placement.h) counts only by the
// pages that it touches, but must fit in addresses.
std::string TooLarge(const OwnedProblem& p) {
  constexpr int64_t kMaxSpan = int64_t{1} << 36;
  const auto touched = [](int64_t stride) { return std::min<int64_t>(stride, 4096); };
  const int64_t n = p.rows(), h = p.hidden_size(), v = p.vocab();
  const bool hidden_major = p.layout.weight_hidden_major;
  struct Product {
    const char* what;
    int64_t count, stride;
  };
  const int64_t logits = h <= kManyLogitsHidden ? kMaxLogits : kMaxElements;
  int64_t n_by_v = 0;
  if (__builtin_mul_overflow(std::max<int64_t>(n, 1), std::max<int64_t>(v, 1), &n_by_v) ||
      n_by_v > logits) {
    return "N*V = " + std::to_string(n) + "*" + std::to_string(v) + " logits, above " +
           std::to_string(logits);
  }
  for (const Product& product : {Product{"N*(H+padding)", n, h + touched(p.layout.hidden_padding)},
                                 {"weight with its padding", hidden_major ? h : v,
                                  (hidden_major ? v : h) + touched(p.layout.weight_padding)},
                                 {"N*label_stride", n, touched(p.layout.label_stride)},
                                 {"N*temperature_stride", n, touched(p.layout.temperature_stride)},
                                 {"N*output_stride", n, touched(p.layout.output_stride)},
                                 {"N*H*gradient_step", n * h, touched(p.layout.gradient_step)},
                                 {"V*H*gradient_step", v * h, touched(p.layout.gradient_step)},
                                 {"N*grad_stride", n, touched(p.layout.grad_stride)}}) {
    int64_t elements = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(product.count, 1),
                               std::max<int64_t>(product.stride, 1), &elements) ||
        elements > kMaxElements) {
      return std::string(product.what) + " = " + std::to_string(product.count) + "*" +
             std::to_string(product.stride) + " elements, above " + std::to_string(kMaxElements);
    }
  }
  struct Lines {
    int64_t count, stride;
  };
  for (const Lines& lines : {Lines{n, p.layout.hidden_padding},
                             {hidden_major ? h : v, p.layout.weight_padding},
                             {n, p.layout.label_stride},
                             {n, p.layout.temperature_stride},
                             {n, p.layout.output_stride},
                             {n, p.layout.grad_stride}}) {
    if (lines.stride > kMaxSpan / std::max<int64_t>(lines.count, 1)) {
      return "a stride of " + std::to_string(lines.stride) + " over " + std::to_string(lines.count) +
             " lines: more than 2^36 elements";
    }
  }
  return {};
}

// True if equal or both NaN: JSON keeps that a value is NaN, not its payload.
bool Same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool Same(const Finding& a, const Finding& b) {
  return a.kind == b.kind && a.output == b.output && a.row == b.row && a.column == b.column &&
         Same(a.got, b.got) && Same(a.expected, b.expected) && Same(a.bound, b.bound) &&
         Same(a.tightness, b.tightness) && a.arbiter == b.arbiter &&
         a.arbiter_silent == b.arbiter_silent && a.what == b.what && a.relation == b.relation &&
         a.suspect == b.suspect && a.readings == b.readings && a.shortcut == b.shortcut;
}

}  // namespace

bool Case::operator==(const Case& other) const {
  return problem == other.problem && state == other.state && target == other.target &&
         drawn_by == other.drawn_by && recipe == other.recipe && Same(finding, other.finding) &&
         bucket == other.bucket;
}

std::vector<std::byte> SerializeCase(const Case& c) {
  SafeTensors content;
  content.metadata[std::string(kKey)] = CaseToJson(c, std::nullopt);
  ForEachTensor(c.problem, [&](std::string_view name, const HostTensor* tensor) {
    if (tensor != nullptr) content.tensors.emplace(name, *tensor);
  });
  return WriteSafeTensors(content);
}

std::vector<std::byte> StoredBytes(const Case& c) {
  std::vector<std::byte> whole = SerializeCase(c);
  if (whole.size() <= static_cast<size_t>(kMaxCaseBytes)) return whole;
  std::optional<Expansion> expansion = ExpansionOf(c.problem, c.recipe);
  if (!expansion) return whole;
  SafeTensors content;
  content.metadata[std::string(kKey)] = CaseToJson(c, std::move(expansion));
  return WriteSafeTensors(content);
}

std::string CaseFromJson(const Json& json, Case* c, std::optional<Expansion>* expansion) {
  return ReadJson(json, "case", [&](FieldVisitor& io) { CaseFields(io, *c, *expansion); });
}

std::optional<Case> ParseCase(std::span<const std::byte> bytes, std::string* error,
                              const ExpansionLimits& limits) {
  const auto refuse = [&](std::string why) {
    *error = std::move(why);
    return std::nullopt;
  };
  std::optional<SafeTensors> content = ReadSafeTensors(bytes, error);
  if (!content) return std::nullopt;
  const auto metadata = content->metadata.find(std::string(kKey));
  if (metadata == content->metadata.end())
    return refuse("metadata has no key \"case\": not a case file");
  std::string why;
  const std::optional<Json> json = Json::Parse(metadata->second, &why);
  if (!json) return refuse("metadata \"case\": " + why);

  Case c;
  std::optional<Expansion> expansion;
  if (why = CaseFromJson(*json, &c, &expansion); !why.empty()) return refuse(why);
  if (expansion && !content->tensors.empty()) {
    return refuse("tensor " + Abridged(Json(content->tensors.begin()->first).Dump()) +
                  " beside an expansion: which of them is the case?");
  }
  why = expansion ? Materialise(*expansion, limits, &c.problem)
                  : TakeTensors(&content->tensors, &c.problem);
  if (!why.empty()) return refuse(why);
  if (const auto reason = Inconsistency(c.problem)) return refuse(*reason);
  if (why = TooLarge(c.problem); !why.empty()) return refuse(why);
  return c;
}

bool WriteCase(const std::filesystem::path& path, const Case& c, std::string* error) {
  return WriteWhole(path, StoredBytes(c), error);
}

std::optional<Case> ReadCase(const std::filesystem::path& path, std::string* error) {
  const std::optional<std::string> text = ReadRegular(path, kMaxCaseRead, error);
  if (!text) return std::nullopt;
  std::string why;
  std::optional<Case> c = ParseCase(std::as_bytes(std::span(*text)), &why);
  if (!c) *error = path.string() + ": " + why;
  return c;
}

}  // namespace plumbline::fuzz
