// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/recipe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

namespace plumbline::fuzz {

namespace {

using kernel::DType;
using kernel::Reduction;

template <class T>
using Named = std::pair<T, std::string_view>;

constexpr std::array<Named<Values>, 32> kValuesNames = {{{Values::kGaussian, "gaussian"},
                                                         {Values::kSmallLse, "small-lse"},
                                                         {Values::kAllNegative, "all-negative"},
                                                         {Values::kOffset, "offset"},
                                                         {Values::kConfident, "confident"},
                                                         {Values::kLattice, "lattice"},
                                                         {Values::kCancel, "cancel"},
                                                         {Values::kSwallow, "swallow"},
                                                         {Values::kConstant, "constant"},
                                                         {Values::kSwallowFma, "swallow-fma"},
                                                         {Values::kSwallowTensor, "swallow-tensor"},
                                                         {Values::kSwallowSum, "swallow-sum"},
                                                         {Values::kSwallowGrads, "swallow-grads"},
                                                         {Values::kSubnormal, "subnormal"},
                                                         {Values::kHuge, "huge"},
                                                         {Values::kRising, "rising"},
                                                         {Values::kFalling, "falling"},
                                                         {Values::kZigzag, "zigzag"},
                                                         {Values::kTies, "ties"},
                                                         {Values::kOutlier, "outlier"},
                                                         {Values::kUlpApart, "ulp-apart"},
                                                         {Values::kLseZero, "lse-zero"},
                                                         {Values::kEntropyTrap, "entropy-trap"},
                                                         {Values::kFar, "far"},
                                                         {Values::kTruncate, "truncate"},
                                                         {Values::kPositive, "positive"},
                                                         {Values::kSignedZeros, "signed-zeros"},
                                                         {Values::kFullBits, "full-bits"},
                                                         {Values::kMassive, "massive"},
                                                         {Values::kLowRank, "low-rank"},
                                                         {Values::kBitPatterns, "bit-patterns"},
                                                         {Values::kAllExponents, "all-exponents"}}};
constexpr std::array<Named<Labels>, 15> kLabelsNames = {{{Labels::kRandom, "random"},
                                                         {Labels::kArgmax, "argmax"},
                                                         {Labels::kFirst, "first"},
                                                         {Labels::kLast, "last"},
                                                         {Labels::kSomeIgnored, "some-ignored"},
                                                         {Labels::kAllIgnored, "all-ignored"},
                                                         {Labels::kIgnoredNaN, "ignored-nan"},
                                                         {Labels::kInvalid, "invalid"},
                                                         {Labels::kArgmin, "argmin"},
                                                         {Labels::kTileEdge, "tile-edge"},
                                                         {Labels::kLastTile, "last-tile"},
                                                         {Labels::kSame, "same"},
                                                         {Labels::kDistinct, "distinct"},
                                                         {Labels::kOneValid, "one-valid"},
                                                         {Labels::kFarIgnored, "far-ignored"}}};
constexpr std::array<Named<Special>, 11> kSpecialNames = {{{Special::kNone, "none"},
                                                           {Special::kHiddenNaN, "hidden-nan"},
                                                           {Special::kHiddenInf, "hidden-inf"},
                                                           {Special::kWeightNaN, "weight-nan"},
                                                           {Special::kMinusInf, "minus-inf"},
                                                           {Special::kMinusInfLabel, "minus-inf-label"},
                                                           {Special::kAllMinusInf, "all-minus-inf"},
                                                           {Special::kPlusInf, "plus-inf"},
                                                           {Special::kTemperature, "temperature"},
                                                           {Special::kMaskedFirst, "masked-first"},
                                                           {Special::kMaskedButOne, "masked-but-one"}}};
constexpr std::array<Named<Grads>, 8> kGradsNames = {{{Grads::kNone, "none"},
                                                      {Grads::kOnes, "ones"},
                                                      {Grads::kRandom, "random"},
                                                      {Grads::kFirstZero, "first-zero"},
                                                      {Grads::kWide, "wide"},
                                                      {Grads::kOneHot, "one-hot"},
                                                      {Grads::kAlternating, "alternating"},
                                                      {Grads::kTiny, "tiny"}}};
constexpr std::array<Named<Rows>, 3> kRowsNames = {
    {{Rows::kForward, "forward"}, {Rows::kReversed, "reversed"}, {Rows::kBroadcast, "broadcast"}}};
constexpr std::array<Named<Wide>, 5> kWideNames = {{{Wide::kNone, "none"},
                                                    {Wide::kHidden, "hidden"},
                                                    {Wide::kWeight, "weight"},
                                                    {Wide::kLabels, "labels"},
                                                    {Wide::kGrads, "grads"}}};
constexpr std::array<Named<unsigned>, 4> kWantNames = {{{kWantEntropy, "entropy"},
                                                        {kWantLse, "lse"},
                                                        {kWantGradHidden, "grad_hidden"},
                                                        {kWantGradWeight, "grad_weight"}}};
constexpr std::array<Named<Reduction>, 3> kReductionNames = {
    {{Reduction::kNone, "none"}, {Reduction::kSum, "sum"}, {Reduction::kMean, "mean"}}};
constexpr std::array<Named<DType>, 3> kFloatNames = {
    {{DType::kBf16, "bf16"}, {DType::kF16, "fp16"}, {DType::kF32, "fp32"}}};
constexpr std::array<Named<DType>, 2> kLabelNames = {{{DType::kI32, "int32"}, {DType::kI64, "int64"}}};
constexpr std::array<Named<bool>, 2> kLayoutNames = {{{false, "vocab-major"}, {true, "hidden-major"}}};
constexpr std::array<Named<bool>, 2> kFlagNames = {{{false, "0"}, {true, "1"}}};

constexpr int kMaxExp = 100;  // 2^100 leaves room for sums below the 2^126 that is judged
constexpr int64_t kMaxPad = 4096;
constexpr int64_t kMaxLabelStride = 64, kMaxOffset = 64, kMaxTemperatureSpread = 40;
constexpr size_t kMaxRegimeName = 64;
constexpr float kMinTemperature = 0x1p-100F, kMaxTemperature = 0x1p+100F;

template <class T, size_t kCount>
std::string_view NameOf(T value, const std::array<Named<T>, kCount>& names) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "?";
}

// Each of the readers below takes a value and returns an empty text, or the reason of a refusal.
template <class T, size_t kCount>
std::string ReadName(std::string_view text, const std::array<Named<T>, kCount>& names, T* value) {
  std::string allowed;
  for (const auto& [candidate, name] : names) {
    if (name == text) {
      *value = candidate;
      return {};
    }
    allowed += allowed.empty() ? "" : ", ";
    allowed += name;
  }
  return "must be one of " + allowed;
}

template <class T>
std::string ReadInteger(std::string_view text, T low, T high, T* value) {
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed < low || parsed > high) {
    return "must be an integer from " + std::to_string(low) + " to " + std::to_string(high);
  }
  *value = parsed;
  return {};
}

std::string ReadSeed(std::string_view text, uint64_t* value) {
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return "must be 1 to 16 hexadecimal digits";
  }
  *value = parsed;
  return {};
}

std::string ReadTemperature(std::string_view text, float* value) {
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

// Reads "none", or names joined by commas.
std::string ReadWant(std::string_view text, unsigned* value) {
  unsigned want = 0;
  for (size_t begin = 0; text != "none" && begin != std::string_view::npos;) {
    const size_t comma = text.find(',', begin);
    unsigned one = 0;
    if (std::string why = ReadName(text.substr(begin, comma - begin), kWantNames, &one); !why.empty()) {
      return why + ", joined by commas, or none";
    }
    want |= one;
    begin = comma == std::string_view::npos ? comma : comma + 1;
  }
  *value = want;
  return {};
}

std::string WantText(unsigned want) {
  std::string text;
  for (const auto& [bit, name] : kWantNames) {
    if ((want & bit) == 0) continue;
    if (!text.empty()) text += ',';
    text += name;
  }
  return text.empty() ? "none" : text;
}

std::string ReadRegime(std::string_view text, std::string* value) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  if (text.empty() || text.size() > kMaxRegimeName ||
      text.find_first_not_of(kAllowed) != std::string_view::npos) {
    return "must be 1 to 64 characters of a-z, 0-9 and -";
  }
  *value = text;
  return {};
}

std::string ReadValue(std::string_view key, std::string_view text, Recipe* r) {
  if (key == "regime") return ReadRegime(text, &r->regime);
  if (key == "seed") return ReadSeed(text, &r->seed);
  if (key == "dtype") return ReadName(text, kFloatNames, &r->dtype);
  if (key == "n") return ReadInteger<int64_t>(text, 0, kMaxElements, &r->n);
  if (key == "v") return ReadInteger<int64_t>(text, 0, kMaxElements, &r->v);
  if (key == "h") return ReadInteger<int64_t>(text, 0, kMaxElements, &r->h);
  if (key == "values") return ReadName(text, kValuesNames, &r->values);
  if (key == "exp") return ReadInteger(text, -kMaxExp, kMaxExp, &r->exp);
  if (key == "labels") return ReadName(text, kLabelsNames, &r->labels);
  if (key == "label_dtype") return ReadName(text, kLabelNames, &r->label_dtype);
  if (key == "grads") return ReadName(text, kGradsNames, &r->grads);
  if (key == "entropy_grads") return ReadName(text, kGradsNames, &r->entropy_grads);
  if (key == "reduction") return ReadName(text, kReductionNames, &r->reduction);
  if (key == "temperature") return ReadTemperature(text, &r->temperature);
  if (key == "temperature_per_row") return ReadName(text, kFlagNames, &r->temperature_per_row);
  if (key == "layout") return ReadName(text, kLayoutNames, &r->hidden_major);
  if (key == "pad") return ReadInteger<int64_t>(text, 0, kMaxPad, &r->pad);
  if (key == "grad_stride") return ReadInteger<int64_t>(text, 0, 2, &r->grad_stride);
  if (key == "fp32_grads") return ReadName(text, kFlagNames, &r->fp32_grads);
  if (key == "special") return ReadName(text, kSpecialNames, &r->special);
  if (key == "temperature_spread") {
    return ReadInteger<int64_t>(text, 0, kMaxTemperatureSpread, &r->temperature_spread);
  }
  if (key == "want") return ReadWant(text, &r->want);
  if (key == "rows") return ReadName(text, kRowsNames, &r->rows);
  if (key == "label_stride") return ReadInteger<int64_t>(text, 0, kMaxLabelStride, &r->label_stride);
  if (key == "offset") return ReadInteger<int64_t>(text, 0, kMaxOffset, &r->offset);
  if (key == "wide") return ReadName(text, kWideNames, &r->wide);
  return "unknown key";
}

std::string TemperatureText(float temperature) {
  if (temperature == 1) return "1";
  char buffer[32];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, temperature, std::chars_format::hex);
  return "0x" + std::string(buffer, result.ptr);
}

std::string HexText(uint64_t value) {
  char buffer[16];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, 16);
  return std::string(buffer, result.ptr);
}

// Returns why the shape is refused; empty if it is not. Factors are at most 2^28 + 2^12, so products
// fit.
std::string TooLarge(const Recipe& r, int64_t most) {
  const std::pair<std::string_view, int64_t> products[] = {
      {"n*v", r.n * r.v}, {"n*(h+pad)", r.n * (r.h + r.pad)}, {"v*(h+pad)", r.v * (r.h + r.pad)}};
  for (const auto& [name, elements] : products) {
    if (elements > most) {
      return std::string(name) + " = " + std::to_string(elements) + ": at most " +
             std::to_string(most) + " elements are expanded";
    }
  }
  return {};
}

bool Refuse(std::string why, std::string* error) {
  *error = std::move(why);
  return false;
}

}  // namespace

std::string Format(const Recipe& r) {
  std::string line = "v1 regime=" + r.regime + " seed=" + HexText(r.seed) + " dtype=";
  line += NameOf(r.dtype, kFloatNames);
  line += " n=" + std::to_string(r.n) + " v=" + std::to_string(r.v) + " h=" + std::to_string(r.h);
  line += " values=";
  line += NameOf(r.values, kValuesNames);
  line += " exp=" + std::to_string(r.exp) + " labels=";
  line += NameOf(r.labels, kLabelsNames);
  line += " label_dtype=";
  line += NameOf(r.label_dtype, kLabelNames);
  line += " grads=";
  line += NameOf(r.grads, kGradsNames);
  line += " entropy_grads=";
  line += NameOf(r.entropy_grads, kGradsNames);
  line += " reduction=";
  line += NameOf(r.reduction, kReductionNames);
  line += " temperature=" + TemperatureText(r.temperature) + " temperature_per_row=";
  line += NameOf(r.temperature_per_row, kFlagNames);
  line += " layout=";
  line += NameOf(r.hidden_major, kLayoutNames);
  line += " pad=" + std::to_string(r.pad) + " grad_stride=" + std::to_string(r.grad_stride);
  line += " fp32_grads=";
  line += NameOf(r.fp32_grads, kFlagNames);
  if (r.special != Special::kNone) {
    line += " special=";
    line += NameOf(r.special, kSpecialNames);
  }
  if (r.temperature_spread != 1) line += " temperature_spread=" + std::to_string(r.temperature_spread);
  if (r.want != kWantAll) line += " want=" + WantText(r.want);
  if (r.rows != Rows::kForward) {
    line += " rows=";
    line += NameOf(r.rows, kRowsNames);
  }
  if (r.label_stride != 1) line += " label_stride=" + std::to_string(r.label_stride);
  if (r.offset != 0) line += " offset=" + std::to_string(r.offset);
  if (r.wide != Wide::kNone) {
    line += " wide=";
    line += NameOf(r.wide, kWideNames);
  }
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
    return grads == Grads::kFirstZero || grads == Grads::kOneHot || grads == Grads::kAlternating;
  };
  if (recipe->reduction != Reduction::kNone && differs_by_row(recipe->grads)) {
    recipe->grads = Grads::kRandom;
  }
  if (differs_by_row(recipe->grads) || differs_by_row(recipe->entropy_grads)) {
    recipe->grad_stride = std::max<int64_t>(recipe->grad_stride, 1);
  }
  if (recipe->v == 0) recipe->labels = Labels::kAllIgnored;
}

}  // namespace plumbline::fuzz
