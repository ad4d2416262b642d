// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/description.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/base/json_reader.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// Pairs a word of the description with its enumerator.
template <class Value>
using Word = std::pair<std::string_view, Value>;

constexpr std::array kDtypes = {Word<DType>("bf16", DType::kBf16), Word<DType>("fp16", DType::kF16),
                                Word<DType>("fp32", DType::kF32)};
constexpr std::array kReductions = {Word<Reduction>("none", Reduction::kNone),
                                    Word<Reduction>("sum", Reduction::kSum),
                                    Word<Reduction>("mean", Reduction::kMean)};
constexpr std::array kTemperatures = {Word<TemperatureSupport>("none", TemperatureSupport::kNone),
                                      Word<TemperatureSupport>("scalar", TemperatureSupport::kScalar),
                                      Word<TemperatureSupport>("row", TemperatureSupport::kRow)};
enum class WeightLayout : uint8_t { kVocabMajor, kHiddenMajor };
constexpr std::array kWeightLayouts = {Word<WeightLayout>("vocab_major", WeightLayout::kVocabMajor),
                                       Word<WeightLayout>("hidden_major", WeightLayout::kHiddenMajor)};
constexpr std::array kLabelDtypes = {Word<DType>("int32", DType::kI32),
                                     Word<DType>("int64", DType::kI64)};
enum class DeviceName : uint8_t { kCpu, kCuda };
constexpr std::array kDevices = {Word<DeviceName>("cpu", DeviceName::kCpu),
                                 Word<DeviceName>("cuda", DeviceName::kCuda)};
constexpr std::array kAccumulates = {
    Word<oracle::Accumulate>("unknown", oracle::Accumulate::kUnknown),
    Word<oracle::Accumulate>("fp32", oracle::Accumulate::kFp32),
    Word<oracle::Accumulate>("fp32_truncated", oracle::Accumulate::kFp32Truncated),
    Word<oracle::Accumulate>("tensor_core", oracle::Accumulate::kTensorCore)};
constexpr std::array kFlushes = {Word<oracle::Flush>("none", oracle::Flush::kNone),
                                 Word<oracle::Flush>("results", oracle::Flush::kResults),
                                 Word<oracle::Flush>("operands", oracle::Flush::kOperands)};
constexpr std::array kScales = {Word<oracle::Scale>("before", oracle::Scale::kBefore),
                                Word<oracle::Scale>("after", oracle::Scale::kAfter)};
constexpr std::array kShifts = {Word<oracle::Shift>("exact_max", oracle::Shift::kExactMax),
                                Word<oracle::Shift>("fused_stored", oracle::Shift::kFusedStored),
                                Word<oracle::Shift>("other", oracle::Shift::kOther)};
constexpr std::array kProbabilities = {
    Word<oracle::Probability>("ratio", oracle::Probability::kRatio),
    Word<oracle::Probability>("exp_of_lse", oracle::Probability::kExpOfLse)};

template <class Words>
std::string Choices(const Words& words) {
  std::string text;
  for (const auto& [name, value] : words) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

template <class Value, size_t kCount>
const Value* Lookup(const Json& json, const std::array<Word<Value>, kCount>& words) {
  const std::string* name = json.as_string();
  if (name == nullptr) return nullptr;
  const auto word =
      std::find_if(words.begin(), words.end(), [&](const Word<Value>& w) { return w.first == *name; });
  return word == words.end() ? nullptr : &word->second;
}

// Reads one of the words. An optional value, too, is only set if the key is present.
template <class Value, class Out, size_t kCount>
void ReadWord(JsonReader& reader, std::string_view key, const std::array<Word<Value>, kCount>& words,
              Out* out) {
  const Json* json = reader.Member(key);
  if (json == nullptr) return;
  if (const Value* value = Lookup(*json, words)) {
    *out = *value;
  } else {
    reader.Wrong(key, json, "one of " + Choices(words));
  }
}

// Reads a list of some of the words, at least one and none twice.
template <class Value, size_t kCount>
void ReadWords(JsonReader& reader, std::string_view key, const std::array<Word<Value>, kCount>& words,
               std::vector<Value>* out) {
  const Json* json = reader.Member(key);
  if (json == nullptr) return;
  const Json::Array* array = json->as_array();
  std::vector<Value> values;
  bool good = array != nullptr && !array->empty();
  for (size_t i = 0; good && i < array->size(); ++i) {
    const Value* value = Lookup((*array)[i], words);
    good = value != nullptr && std::find(values.begin(), values.end(), *value) == values.end();
    if (good) values.push_back(*value);
  }
  if (!good)
    return reader.Wrong(key, json, "a list, not empty and without repetition, of " + Choices(words));
  *out = std::move(values);
}

// Like the above, for words that are kept as one flag each.
template <class Value>
void ReadFlags(JsonReader& reader, std::string_view key, const std::array<Word<Value>, 2>& words,
               bool* first, bool* second) {
  std::vector<Value> values;
  ReadWords(reader, key, words, &values);
  if (values.empty()) return;
  const auto has = [&](Value v) { return std::find(values.begin(), values.end(), v) != values.end(); };
  *first = has(words[0].second);
  *second = has(words[1].second);
}

void ReadCapabilities(JsonReader& reader, Capabilities* c) {
  ReadWords(reader, "dtypes", kDtypes, &c->dtypes);
  ReadFlags(reader, "weight_layouts", kWeightLayouts, &c->vocab_major, &c->hidden_major);
  ReadFlags(reader, "label_dtypes", kLabelDtypes, &c->label_int32, &c->label_int64);
  ReadWord(reader, "temperature", kTemperatures, &c->temperature);
  ReadWords(reader, "reductions", kReductions, &c->reductions);
  for (const auto& [key, flag] : {std::pair("ignore_index", &c->ignore_index),
                                  {"entropy", &c->entropy},
                                  {"lse", &c->lse},
                                  {"grad_hidden", &c->grad_hidden},
                                  {"grad_weight", &c->grad_weight},
                                  {"fp32_grads", &c->fp32_grads},
                                  {"strided_inputs", &c->strided_inputs},
                                  {"zero_stride_grads", &c->zero_stride_grads},
                                  {"special_values", &c->special_values},
                                  {"invalid_labels", &c->invalid_labels},
                                  {"deterministic", &c->deterministic},
                                  {"batch_invariant", &c->batch_invariant}}) {
    reader.Read(key, flag);
  }
  for (const auto& [key, multiple] : {std::pair("hidden_multiple", &c->hidden_multiple),
                                      {"vocab_multiple", &c->vocab_multiple},
                                      {"rows_multiple", &c->rows_multiple}}) {
    reader.Read(key, multiple, 1, INT64_MAX);
  }
}

void ReadContract(JsonReader& reader, oracle::Contract* c) {
  // Errors are counted in units of 2^-24: beyond this a result has no digit left that could be judged.
  constexpr double kMostError = 1 << 24;
  constexpr int kMostCount = 1 << 20;
  ReadWord(reader, "accumulate", kAccumulates, &c->accumulate);
  reader.Read("block", &c->block, 1, kMostCount);
  reader.Read("extra_bits", &c->extra_bits, 0, 64);
  reader.Read("split", &c->split, 1, kMostCount);
  if (const Json* planes = reader.Member("input_planes")) {
    const int64_t* count = planes->as_int();
    if (count == nullptr || (*count != 1 && *count != 3)) {
      reader.Wrong("input_planes", planes, "1 or 3");
    } else {
      c->input_planes = static_cast<int>(*count);
    }
  }
  reader.Read("input_rounding", &c->input_rounding, 0, 1);
  ReadWord(reader, "flush", kFlushes, &c->flush);
  ReadWord(reader, "scale", kScales, &c->scale);
  reader.Read("scale_roundings", &c->scale_roundings, 0, kMostError);
  reader.Read("scale_exact_powers", &c->scale_exact_powers);
  ReadWord(reader, "shift", kShifts, &c->shift);
  reader.Read("exp_error", &c->exp_error, 0, kMostError);
  reader.Read("exp_gradual", &c->exp_gradual);
  reader.Read("argument_roundings", &c->argument_roundings, 0, kMostError);
  reader.Read("log_error_absolute", &c->log_error_absolute, 0, kMostError);
  reader.Read("log_error_relative", &c->log_error_relative, 0, kMostError);
  reader.Read("division_error", &c->division_error, 0, kMostError);
  reader.Read("tile", &c->tile, 1, INT64_MAX);
  reader.Read("tile_depth", &c->tile_depth, 0, INT64_MAX);
  reader.Read("splits", &c->splits, 1, INT64_MAX);
  if (reader.Member("rescales") != nullptr) {
    reader.Read("rescales", &c->rescales.emplace(0), 0, INT64_MAX);
  }
  reader.Read("label_logit_separate", &c->label_logit_separate);
  reader.Read("plain_logprob", &c->plain_logprob);
  reader.Read("plain_entropy", &c->plain_entropy);
  reader.Read("recompute_same_bits", &c->recompute_same_bits);
  ReadWord(reader, "probability", kProbabilities, &c->probability);
  ReadWord(reader, "d_logits", kDtypes, &c->d_logits);
  ReadWord(reader, "accumulator", kDtypes, &c->accumulator);
  reader.Read("vocab_chunk", &c->vocab_chunk, 0, INT64_MAX);
  reader.Read("row_chunk", &c->row_chunk, 0, INT64_MAX);
}

// The most bytes of the whole text; and of the name and the version, which are printed and stand in
// journals.
constexpr size_t kMaxText = size_t{1} << 20, kMaxLabel = 100;

bool IsLabel(const std::string& text) {
  return text.size() <= kMaxLabel &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::optional<Description> ParseDescription(std::string_view json, std::string* error) {
  std::string why;
  if (json.size() > kMaxText) {
    *error = "description has " + std::to_string(json.size()) + " bytes, more than " +
             std::to_string(kMaxText);
    return std::nullopt;
  }
  const std::optional<Json> parsed = Json::Parse(json, &why);
  if (!parsed) {
    *error = "description is not JSON: " + why;
    return std::nullopt;
  }
  Description description;
  JsonReader reader(&*parsed, "description", Presence::kOptional);
  reader.Read("name", &description.name);
  if (description.name.empty())
    reader.Wrong("name", parsed->Find("name"), "a string that says what it is");
  reader.Read("version", &description.version);
  for (const auto& [key, value] :
       {std::pair("name", &description.name), {"version", &description.version}}) {
    if (IsLabel(*value)) continue;
    *error = "description." + std::string(key) + " is " + Json(value->substr(0, kMaxLabel)).Dump() +
             ": not at most " + std::to_string(kMaxLabel) + " printable ASCII characters";
    return std::nullopt;
  }
  DeviceName device = DeviceName::kCpu;
  ReadWord(reader, "device", kDevices, &device);
  description.device = kDevices[static_cast<size_t>(device)].first;

  JsonReader capabilities(reader.Member("capabilities"), "capabilities", Presence::kOptional);
  ReadCapabilities(capabilities, &description.capabilities);
  JsonReader contract(reader.Member("contract"), "contract", Presence::kOptional);
  ReadContract(contract, &description.contract);
  reader.Adopt(capabilities);
  reader.Adopt(contract);
  if (why = reader.Error(); !why.empty()) {
    *error = std::move(why);
    return std::nullopt;
  }
  return description;
}

}  // namespace plumbline::fuzz
