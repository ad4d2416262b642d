// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <utility>

#include "fuzz/base/hash.h"
#include "fuzz/base/text.h"
#include "fuzz/cases/file.h"
#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

// Up to kWhole indices of an axis are all shown. If there are more, the first kHead, the last kTail and
// the one that the finding names are. A minimised case has at most 64 values and is shown whole.
constexpr int64_t kWhole = 64;
constexpr int64_t kHead = 6;
constexpr int64_t kTail = 2;

std::vector<int64_t> Shown(int64_t extent, int64_t wanted) {
  const bool whole = extent <= kWhole;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < (whole ? extent : kHead); ++i) indices.push_back(i);
  if (whole) return indices;
  if (wanted >= kHead && wanted < extent - kTail) indices.push_back(wanted);
  for (int64_t i = extent - kTail; i < extent; ++i) indices.push_back(i);
  return indices;
}

// Shows the shortest decimal that reads back as the same float, and the hexadecimal form, which is
// exact.
std::string Value(const HostTensor& t, int64_t i) {
  if (!kernel::IsFloat(t.dtype)) return std::to_string(t.GetInt(i));
  const float value = t.GetFloat(i);
  if (!std::isfinite(value))
    return Text("%a (bits 0x%" PRIx64 ")", static_cast<double>(value), t.GetBits(i));
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return std::string(digits, end) + Text(" (%a)", static_cast<double>(value));
}

std::string Exactly(double value) {
  return std::isnan(value) ? "nan (nan)" : Text("%.17g (%a)", value, value);
}

void ShowTensor(std::string_view name, const HostTensor& t, int64_t row, int64_t column,
                std::string* out) {
  *out +=
      std::string(name) + " " + std::string(kernel::Name(t.dtype)) + " " + ShapeText(t.shape) + "\n";
  const int64_t rows = t.shape.empty() ? 1 : t.shape[0];
  const int64_t columns = t.shape.size() < 2 ? 1 : t.shape[1];
  int64_t next_row = 0;
  for (const int64_t i : Shown(rows, row)) {
    if (i != next_row) *out += Text("    ... %" PRId64 " more\n", i - next_row);
    next_row = i + 1;
    *out += t.shape.empty() ? "    " : Text("    [%" PRId64 "] ", i);
    int64_t next = 0;
    for (const int64_t j : Shown(columns, column)) {
      if (j != next) *out += Text("... %" PRId64 " more ... ", j - next);
      next = j + 1;
      *out += Value(t, i * columns + j) + (j + 1 < columns ? "  " : "");
    }
    *out += '\n';
  }
  // The hash makes two versions of a case differ even if the elements that differ are not shown.
  if (rows > kWhole || columns > kWhole)
    *out += Text("    fnv1a %016" PRIx64 "\n", Fnv1a(t.bytes).value());
}

std::string Options(const OwnedProblem& p) {
  std::string text = Text("reduction %s, ignore_index %" PRId64 ", weight %s-major",
                          std::string(NameOf(p.reduction, kReductionNames)).c_str(), p.ignore_index,
                          p.layout.weight_hidden_major ? "hidden" : "vocab");
  const std::array<std::pair<const char*, int64_t>, 4> padding = {
      std::pair("hidden padding", p.layout.hidden_padding),
      {"weight padding", p.layout.weight_padding},
      {"label offset", p.layout.label_offset},
      {"offset", p.layout.offset}};
  for (const auto& [what, elements] : padding) {
    if (elements != 0) text += Text(", %s %" PRId64, what, elements);
  }
  if (p.layout.grad_stride != 1) text += Text(", gradient stride %" PRId64, p.layout.grad_stride);
  if (p.layout.label_stride != 1) text += Text(", label stride %" PRId64, p.layout.label_stride);
  if (p.layout.temperature_stride != 1) {
    text += Text(", temperature stride %" PRId64, p.layout.temperature_stride);
  }
  if (p.layout.output_stride != 1) text += Text(", output stride %" PRId64, p.layout.output_stride);
  if (p.layout.gradient_step != 1) text += Text(", gradient step %" PRId64, p.layout.gradient_step);
  if (p.layout.single_stride != 1) text += Text(", single stride %" PRId64, p.layout.single_stride);
  if (p.layout.reversed) text += ", rows last to first";
  if (p.layout.hidden_broadcast) text += ", one row of hidden for all";

  text += "\nasked for: ";
  text += p.reduction == kernel::Reduction::kNone ? "logprob" : "loss";
  const std::array<std::pair<const char*, bool>, 5> wanted = {
      std::pair("entropy", p.wanted.entropy),
      {"lse", p.wanted.lse},
      {"grad_hidden", p.wanted.grad_hidden},
      {"grad_weight", p.wanted.grad_weight},
      {"gradients in fp32", p.wanted.fp32_grads}};
  for (const auto& [what, asked] : wanted) {
    if (asked) text += std::string(", ") + what;
  }
  return text + "\n";
}

std::string ShowFinding(const Finding& f) {
  std::string text = "found: " + f.Signature() +
                     (f.output.empty() ? "" : " at " + Place(f.output, f.row, f.column)) + "\n";
  if (!f.what.empty()) text += "    " + f.what + "\n";
  // Findings of these kinds are about an element's value; the others have no numbers.
  if (f.kind == FindingKind::kBound || f.kind == FindingKind::kNonFinite ||
      f.kind == FindingKind::kSign || f.kind == FindingKind::kNotZero) {
    text += "    got       " + Exactly(f.got) + "\n";
    text += "    expected  " + Exactly(f.expected) + "\n";
    text += "    allowed   " + Exactly(f.bound) + "\n";
    text += Text("    ratio     %.4g\n", f.tightness);
  }
  if (!f.arbiter.empty()) text += "    arbiter   " + f.arbiter + "\n";
  if (!f.shortcut.empty()) text += "    shortcut  " + f.shortcut + " explains it\n";
  if (!f.arbiter_silent.empty()) text += "    arbiter   not asked: " + f.arbiter_silent + "\n";
  return text;
}

// Returns the name of a key of `extra` as it is shown.
std::string ShownKey(const std::string& key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWords = {
      std::pair<std::string_view, std::string_view>{"also", "also shows"},
      {"explain", "what may vary"},
      {"plumb", "written by plumb"},
      {"repeats", "several runs"},
      {"shrink", "shrinking"}};
  for (const auto& [name, words] : kWords) {
    if (key == name) return std::string(words);
  }
  return Printable(key);
}

std::string ShownValue(const Json& value) {
  return value.as_string() != nullptr ? Printable(*value.as_string()) : value.Dump();
}

// Returns a line for each key: texts of a list one below the other, a record as "name value" pairs.
std::string ShowExtra(const Json& extra) {
  if (extra.is_null()) return {};
  if (extra.as_object() == nullptr) return "extra: " + extra.Dump() + "\n";
  std::string text;
  for (const auto& [key, value] : *extra.as_object()) {
    text += ShownKey(key) + ":";
    if (value.as_array() != nullptr) {
      for (const Json& line : *value.as_array()) text += "\n    " + ShownValue(line);
    } else if (value.as_object() != nullptr) {
      std::vector<std::string> pairs;
      for (const auto& [name, each] : *value.as_object())
        pairs.push_back(Printable(name) + " " + ShownValue(each));
      text += " " + Joined(pairs);
    } else {
      text += " " + ShownValue(value);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string Show(const Case& c) {
  const OwnedProblem& p = c.problem;
  std::string out = "state: " + std::string(Name(c.state)) + "\ntarget: " + c.target + "\n";
  out += (c.recipe.empty() ? "origin: " : "drawn by: ") + c.drawn_by + "\n";
  out += "recipe: " + (c.recipe.empty() ? "(none: not from a recipe)" : c.recipe) + "\n";
  out += ShowFinding(c.finding);
  if (!c.bucket.id.empty()) out += "bucket: " + c.bucket.id + " " + c.bucket.key + "\n";
  out += Text("problem: N=%" PRId64 " V=%" PRId64 " H=%" PRId64 ", %" PRId64 " values\n", p.rows(),
              p.vocab(), p.hidden_size(), ValueCount(p));
  out += Options(p);

  const bool by_vocab = c.finding.output == "grad_weight";
  const int64_t column = c.finding.output.starts_with("grad") ? c.finding.column : -1;
  ForEachTensor(p, [&](std::string_view name, const HostTensor* tensor) {
    const int64_t row = (name == "weight") == by_vocab ? c.finding.row : -1;
    if (tensor != nullptr) ShowTensor(name, *tensor, row, column, &out);
  });
  return out + ShowExtra(c.extra);
}

}  // namespace plumbline::fuzz
