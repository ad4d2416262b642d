// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target/contract_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

namespace plumbline::fuzz {
namespace {

// A word with a few values, each of which stands for keys of a contract.
struct Choice {
  std::string_view word, value;
  std::string_view json;  // an object: keys of DESCRIPTION.md
};

// CONTRACTS.md says where each number comes from.
constexpr std::array kChoices = {
    Choice{"matmul", "fp32", R"({"accumulate": "fp32"})"},
    Choice{"matmul", "tensor_core", R"({"accumulate": "unknown"})"},
    Choice{"matmul", "hopper", R"({"accumulate": "tensor_core", "block": 16, "extra_bits": 2})"},
    Choice{"matmul", "ampere", R"({"accumulate": "tensor_core", "block": 8, "extra_bits": 1})"},
    Choice{"matmul", "volta", R"({"accumulate": "tensor_core", "block": 4, "extra_bits": 0})"},
    Choice{"matmul", "tf32", R"({"accumulate": "unknown", "input_rounding": 0.00048828125})"},
    Choice{"matmul", "bf16", R"({"accumulate": "unknown", "input_rounding": 0.00390625})"},
    Choice{"matmul", "bf16x3", R"({"accumulate": "tensor_core", "block": 16, "extra_bits": 2,
                                   "input_planes": 3})"},
    Choice{"softmax", "shifted", R"({"plain_logprob": false, "plain_entropy": false})"},
    Choice{"softmax", "unshifted", R"({"plain_logprob": true, "plain_entropy": true})"},
    Choice{"entropy", "shifted", R"({"plain_entropy": false, "entropy_of_probabilities": false})"},
    Choice{"entropy", "unshifted", R"({"plain_entropy": true, "entropy_of_probabilities": false})"},
    Choice{"entropy", "probabilities", R"({"entropy_of_probabilities": true})"},
    Choice{"exp", "ex2.approx", R"({"exp_error": 4, "exp_gradual": false, "argument_roundings": 2})"},
    Choice{"log", "lg2.approx", R"({"log_error_absolute": 4, "log_error_relative": 6})"},
    Choice{"backward", "recomputed",
           R"({"recompute_same_bits": false, "log_softmax_backward": false})"},
    Choice{"backward", "kept", R"({"recompute_same_bits": true, "log_softmax_backward": false})"},
    Choice{"backward", "autograd", R"({"log_softmax_backward": true})"},
};
// Words that take a number, for one key or two.
struct Number {
  std::string_view word, first, second;
};
constexpr std::array kNumbers = {
    Number{"exp", "exp_error", ""},
    Number{"log", "log_error_absolute", "log_error_relative"},
};
constexpr std::array<std::string_view, 4> kForwardOutputs = {"logprob", "loss", "entropy", "lse"};

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> Decimal(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// 0.25, 2**-12 or 2^-12.
std::optional<double> NumberOf(std::string_view text) {
  for (const std::string_view power : {"2**", "2^"}) {
    if (!text.starts_with(power)) continue;
    const auto exponent = Decimal(text.substr(power.size()));
    return exponent ? std::optional(std::exp2(*exponent)) : std::nullopt;
  }
  return Decimal(text);
}

// A whole number where it is one: DESCRIPTION.md has counts.
Json NumberJson(double value) {
  const bool whole = value == std::floor(value) && std::fabs(value) < 0x1p53;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json ValueJson(std::string_view text) {
  if (text == "true" || text == "false") return Json(text == "true");
  if (const auto number = NumberOf(text)) return NumberJson(*number);
  return Json(text);
}

std::string ChoicesOf(std::string_view word) {
  std::string all;
  for (const Choice& choice : kChoices) {
    if (choice.word == word) all += (all.empty() ? "" : ", ") + std::string(choice.value);
  }
  return all;
}

// "bf16/4096", or "bf16/512/4096" where columns and rows differ: a dtype and its numbers.
bool ApplyParts(std::string_view word, std::string_view value, size_t most, Json* contract,
                std::string* error) {
  const std::vector<std::string_view> parts = Split(value, '/');
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == (word == "split_k" ? 1U : 0U)) continue;  // the dtype
    const auto number = NumberOf(parts[i]);
    if (!number || *number < 1 || *number != std::floor(*number)) break;
    numbers.push_back(static_cast<int64_t>(*number));
  }
  const bool split = word == "split_k";
  const bool good = parts.size() <= most && numbers.size() == (split ? 1 : parts.size() - 1);
  if (!good) {
    *error = std::string(word) + "=" + std::string(value) + ": it is " +
             (split ? "N or N/DTYPE" : "DTYPE, DTYPE/CHUNK or DTYPE/COLUMNS/ROWS");
    return false;
  }
  if (split) {
    (*contract)["split"] = numbers[0];
    if (parts.size() > 1) (*contract)["partials"] = parts[1];
    return true;
  }
  (*contract)["accumulator"] = parts[0];
  if (!numbers.empty()) {
    (*contract)["vocab_chunk"] = numbers.front();
    (*contract)["row_chunk"] = numbers.back();
  }
  return true;
}

bool ApplyWord(std::string_view word, std::string_view value, Json* contract, std::string* error) {
  if (word == "split_k") return ApplyParts(word, value, 2, contract, error);
  if (word == "grad_accumulator") return ApplyParts(word, value, 3, contract, error);
  if (word == "outputs") {
    for (const std::string_view output : kForwardOutputs) (*contract)["outputs"][output] = value;
    return true;
  }
  constexpr std::string_view kOneOutput = "outputs.";
  if (word.starts_with(kOneOutput)) {
    (*contract)["outputs"][word.substr(kOneOutput.size())] = value;
    return true;
  }
  bool is_choice = false;
  for (const Choice& choice : kChoices) {
    is_choice = is_choice || choice.word == word;
    if (choice.word != word || choice.value != value) continue;
    const Json keys = *Json::Parse(choice.json, error);
    for (const auto& [key, of_key] : *keys.as_object()) (*contract)[key] = of_key;
    return true;
  }
  for (const Number& number : kNumbers) {
    const auto of_word = number.word == word ? NumberOf(value) : std::nullopt;
    if (!of_word) continue;
    (*contract)[number.first] = NumberJson(*of_word);
    if (!number.second.empty()) (*contract)[number.second] = NumberJson(*of_word);
    return true;
  }
  if (is_choice) {
    const bool number = std::ranges::find(kNumbers, word, &Number::word) != kNumbers.end();
    *error = std::string(word) + "=" + std::string(value) + ": there are " + ChoicesOf(word) +
             (number ? ", or a number of units of 2^-24" : "");
    return false;
  }
  (*contract)[word] = ValueJson(value);
  return true;
}

}  // namespace

bool IsContractWords(std::string_view text) {
  return text.find('=') != text.npos && !text.ends_with(".json");
}

bool ApplyContractWords(std::string_view words, Json* contract, std::string* error) {
  for (const std::string_view item : Split(words, ',')) {
    const size_t at = item.find('=');
    const std::string_view word = Trimmed(item.substr(0, at));
    if (at == item.npos || word.empty()) {
      *error = "'" + std::string(item) + "' is no WORD=VALUE";
      return false;
    }
    if (!ApplyWord(word, Trimmed(item.substr(at + 1)), contract, error)) return false;
  }
  return true;
}

}  // namespace plumbline::fuzz
