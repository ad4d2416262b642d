// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/recipe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "fuzz/base/names.h"

namespace plumbline::fuzz {

namespace {

// Names in the order of the enumerators.
using Word = std::string_view;
constexpr std::array<Word, 32> kValuesNames = {
    "gaussian",      "small-lse",    "all-negative", "offset",      "confident",      "lattice",
    "cancel",        "swallow",      "constant",     "swallow-fma", "swallow-tensor", "swallow-sum",
    "swallow-grads", "subnormal",    "huge",         "rising",      "falling",        "zigzag",
    "ties",          "outlier",      "ulp-apart",    "lse-zero",    "entropy-trap",   "far",
    "truncate",      "positive",     "signed-zeros", "full-bits",   "massive",        "low-rank",
    "bit-patterns",  "all-exponents"};
constexpr std::array<Word, 18> kLabelsNames = {
    "random",      "argmax",    "first",       "last",      "some-ignored", "all-ignored",
    "ignored-nan", "invalid",   "argmin",      "tile-edge", "last-tile",    "same",
    "distinct",    "one-valid", "far-ignored", "prompts",   "padded",       "packed"};
constexpr std::array<Word, 11> kSpecialNames = {
    "none",          "hidden-nan", "hidden-inf",  "weight-nan",   "minus-inf",     "minus-inf-label",
    "all-minus-inf", "plus-inf",   "temperature", "masked-first", "masked-but-one"};
constexpr std::array<Word, 13> kGradsNames = {
    "none", "ones",    "random",       "first-zero", "wide",    "one-hot", "alternating",
    "tiny", "extreme", "signed-zeros", "advantages", "clipped", "masked"};
constexpr std::array<Word, 3> kRowsNames = {"forward", "reversed", "broadcast"};
constexpr std::array<Word, 5> kWideNames = {"none", "hidden", "weight", "labels", "grads"};
constexpr std::array<Word, 4> kWantNames = {"entropy", "lse", "grad_hidden", "grad_weight"};  // by bit
constexpr std::array<Word, 3> kReductionWords = {"none", "sum", "mean"};
constexpr std::array<Word, 3> kFloatNames = {"bf16", "fp16", "fp32"};
constexpr std::array<Word, 2> kLabelDtypeNames = {"int32", "int64"};
constexpr std::array<Word, 2> kLayoutNames = {"vocab-major", "hidden-major"};
constexpr std::array<Word, 2> kFlagNames = {"0", "1"};

static_assert(kValuesNames.size() == static_cast<size_t>(Values::kAllExponents) + 1);
static_assert(kLabelsNames.size() == static_cast<size_t>(Labels::kPacked) + 1);
static_assert(kGradsNames.size() == static_cast<size_t>(Grads::kMasked) + 1);
static_assert(kSpecialNames.size() == static_cast<size_t>(Special::kMaskedButOne) + 1);

// From this key on, a key is written only if it differs from its default.
constexpr std::string_view kFirstLaterKey = "special";

constexpr int kMaxExp = 100;  // 2^100 leaves room for sums below the 2^126 that is judged
constexpr int64_t kMaxPad = 4096;
constexpr int64_t kMaxGradientStep = 8, kMaxVectorStride = 64, kMaxOffset = 64,
                  kMaxTemperatureSpread = 40;
constexpr size_t kMaxRegimeName = 64;
constexpr float kMinTemperature = 0x1p-100F, kMaxTemperature = 0x1p+100F;

// The forms of values beside Names. Each has a Text, which writes a value, and a Read, which takes one
// and returns an empty text, or the reason of a refusal.
struct Integers {
  int64_t low, high;
};
struct Hexadecimal {};
struct Temperature {};
struct WantNames {};
struct RegimeName {};

template <class T>
std::string Text(T value, Names names) {
  return std::string(NameOf(value, names));
}

template <class T>
std::string Read(std::string_view text, Names names, T* value) {
  const std::optional<T> named = ValueOf<T>(text, names);
  if (!named) return "must be one of " + Choices(names);
  *value = *named;
  return {};
}

template <class T>
std::string Text(T value, Integers) {
  return std::to_string(value);
}

template <class T>
std::string Read(std::string_view text, Integers range, T* value) {
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed < range.low ||
      parsed > range.high) {
    return "must be an integer from " + std::to_string(range.low) + " to " + std::to_string(range.high);
  }
  *value = parsed;
  return {};
}

std::string Text(uint64_t value, Hexadecimal) {
  char buffer[16];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, 16);
  return std::string(buffer, result.ptr);
}

std::string Read(std::string_view text, Hexadecimal, uint64_t* value) {
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return "must be 1 to 16 hexadecimal digits";
  }
  *value = parsed;
  return {};
}

std::string Text(float temperature, Temperature) {
  if (temperature == 1) return "1";
  char buffer[32];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, temperature, std::chars_format::hex);
  return "0x" + std::string(buffer, result.ptr);
}

std::string Read(std::string_view text, Temperature, float* value) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  float parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed,
                                            hex ? std::chars_format::hex : std::chars_format::general);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(parsed >= kMinTemperature && parsed <= kMaxTemperature)) {
    return "must be a number from 2^-100 to 2^100, decimal or 0x hexadecimal";
  }
  *value = parsed;
  return {};
}

// "none", or names joined by commas.
std::string Text(unsigned want, WantNames) {
  std::string text;
  for (size_t bit = 0; bit < kWantNames.size(); ++bit) {
    if ((want >> bit & 1) == 0) continue;
    if (!text.empty()) text += ',';
    text += kWantNames[bit];
  }
  return text.empty() ? "none" : text;
}

std::string Read(std::string_view text, WantNames, unsigned* value) {
  unsigned want = 0;
  for (size_t begin = 0; text != "none" && begin != std::string_view::npos;) {
    const size_t comma = text.find(',', begin);
    unsigned bit = 0;
    if (std::string why = Read(text.substr(begin, comma - begin), kWantNames, &bit); !why.empty()) {
      return why + ", joined by commas, or none";
    }
    want |= 1U << bit;
    begin = comma == std::string_view::npos ? comma : comma + 1;
  }
  *value = want;
  return {};
}

std::string Text(const std::string& regime, RegimeName) { return regime; }

std::string Read(std::string_view text, RegimeName, std::string* value) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  if (text.empty() || text.size() > kMaxRegimeName ||
      text.find_first_not_of(kAllowed) != std::string_view::npos) {
    return "must be 1 to 64 characters of a-z, 0-9 and -";
  }
  *value = text;
  return {};
}

// Calls visit(key, member, form) for each key, in the order of a line.
template <class Visit>
void ForEachKey(const Visit& visit) {
  visit("regime", &Recipe::regime, RegimeName());
  visit("seed", &Recipe::seed, Hexadecimal());
  visit("dtype", &Recipe::dtype, Names(kFloatNames));
  visit("n", &Recipe::n, Integers{0, kMaxElements});
  visit("v", &Recipe::v, Integers{0, kMaxElements});
  visit("h", &Recipe::h, Integers{0, kMaxElements});
  visit("values", &Recipe::values, Names(kValuesNames));
  visit("exp", &Recipe::exp, Integers{-kMaxExp, kMaxExp});
  visit("labels", &Recipe::labels, Names(kLabelsNames));
  visit("label_dtype", &Recipe::label_dtype,
        Names(kLabelDtypeNames, static_cast<size_t>(kernel::DType::kI32)));
  visit("grads", &Recipe::grads, Names(kGradsNames));
  visit("entropy_grads", &Recipe::entropy_grads, Names(kGradsNames));
  visit("reduction", &Recipe::reduction, Names(kReductionWords));
  visit("temperature", &Recipe::temperature, Temperature());
  visit("temperature_per_row", &Recipe::temperature_per_row, Names(kFlagNames));
  visit("layout", &Recipe::hidden_major, Names(kLayoutNames));
  visit("pad", &Recipe::pad, Integers{0, kMaxPad});
  visit("grad_stride", &Recipe::grad_stride, Integers{0, 2});
  visit("fp32_grads", &Recipe::fp32_grads, Names(kFlagNames));
  visit(kFirstLaterKey, &Recipe::special, Names(kSpecialNames));
  visit("temperature_spread", &Recipe::temperature_spread, Integers{0, kMaxTemperatureSpread});
  visit("want", &Recipe::want, WantNames());
  visit("rows", &Recipe::rows, Names(kRowsNames));
  visit("label_stride", &Recipe::label_stride, Integers{0, kMaxVectorStride});
  visit("offset", &Recipe::offset, Integers{0, kMaxOffset});
  visit("wide", &Recipe::wide, Names(kWideNames));
  visit("temperature_stride", &Recipe::temperature_stride, Integers{1, kMaxVectorStride});
  visit("output_stride", &Recipe::output_stride, Integers{1, kMaxVectorStride});
  visit("gradient_step", &Recipe::gradient_step, Integers{1, kMaxGradientStep});
  visit("single_stride", &Recipe::single_stride, Integers{1, kMaxVectorStride});
}

std::string ReadValue(std::string_view key, std::string_view text, Recipe* recipe) {
  std::string why = "unknown key";
  ForEachKey([&](std::string_view known, auto member, const auto& form) {
    if (known == key) why = Read(text, form, &(recipe->*member));
  });
  return why;
}

// Returns why the shape is refused; empty if it is not. Factors are at most 2^28 + 2^12, so products
// fit.
std::string TooLarge(const Recipe& r, int64_t most) {
  struct Product {
    std::string_view name;
    int64_t elements, most;
  };
  const int64_t logits = r.h <= kManyLogitsHidden ? std::max(most, kMaxLogits) : most;
  const Product products[] = {{"n*v", r.n * r.v, logits},
                              {"n*(h+pad)", r.n * (r.h + r.pad), most},
                              {"v*(h+pad)", r.v * (r.h + r.pad), most}};
  for (const Product& product : products) {
    if (product.elements > product.most) {
      return std::string(product.name) + " = " + std::to_string(product.elements) + ": at most " +
             std::to_string(product.most) + " elements are expanded";
    }
  }
  return {};
}

bool Refuse(std::string why, std::string* error) {
  *error = std::move(why);
  return false;
}

}  // namespace

std::string Format(const Recipe& recipe) {
  static const Recipe kDefaults;
  std::string line = "v1";
  bool later = false;
  ForEachKey([&](std::string_view key, auto member, const auto& form) {
    later |= key == kFirstLaterKey;
    if (later && recipe.*member == kDefaults.*member) return;
    line += ' ';
    line += key;
    line += '=';
    line += Text(recipe.*member, form);
  });
  return line;
}

bool Parse(std::string_view line, Recipe* recipe, std::string* error, int64_t most) {
  Recipe parsed;
  std::set<std::string_view> seen;
  bool first = true;
  for (size_t begin = line.find_first_not_of(' '); begin != std::string_view::npos;) {
    const size_t end = line.find(' ', begin);
    const std::string_view token = line.substr(begin, end - begin);
    begin = line.find_first_not_of(' ', end);
    // Appended piece by piece: "'" + std::string trips g++ 12's -Wrestrict at -O3 (GCC bug 105651).
    std::string quoted(1, '\'');
    quoted += token;
    quoted += '\'';
    if (first) {
      if (token != "v1") return Refuse(quoted + ": a recipe starts with v1", error);
      first = false;
      continue;
    }
    const size_t equals = token.find('=');
    if (equals == std::string_view::npos) return Refuse(quoted + ": must be key=value", error);
    const std::string_view key = token.substr(0, equals);
    if (!seen.insert(key).second) return Refuse(quoted + ": key given twice", error);
    const std::string why = ReadValue(key, token.substr(equals + 1), &parsed);
    if (!why.empty()) return Refuse(quoted + ": " + why, error);
  }
  if (first) return Refuse("empty recipe: a recipe starts with v1", error);
  if (std::string why = TooLarge(parsed, most); !why.empty()) return Refuse(std::move(why), error);
  *recipe = std::move(parsed);
  return true;
}

void KeepSensible(Recipe* recipe) {
  const auto differs_by_row = [](Grads grads) {
    return grads == Grads::kFirstZero || grads == Grads::kOneHot || grads == Grads::kAlternating ||
           grads == Grads::kAdvantages || grads == Grads::kClipped || grads == Grads::kMasked;
  };
  if (recipe->reduction != kernel::Reduction::kNone && differs_by_row(recipe->grads)) {
    recipe->grads = Grads::kRandom;
  }
  if (differs_by_row(recipe->grads) || differs_by_row(recipe->entropy_grads)) {
    recipe->grad_stride = std::max<int64_t>(recipe->grad_stride, 1);
  }
  if (recipe->v == 0) recipe->labels = Labels::kAllIgnored;
}

}  // namespace plumbline::fuzz
