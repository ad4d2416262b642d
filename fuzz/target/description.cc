// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/description.h"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "fuzz/base/fields.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

using Word = std::string_view;
constexpr std::array<Word, 3> kDtypes = {"bf16", "fp16", "fp32"};
constexpr std::array<Word, 4> kStepDtypes = {"bf16", "fp16", "fp32", "input"};
constexpr std::array<Word, 3> kTemperatures = {"none", "scalar", "row"};
constexpr std::array<Word, 2> kWeightLayouts = {"vocab_major", "hidden_major"};
constexpr std::array<Word, 2> kLabelDtypes = {"int32", "int64"};
constexpr std::array<Word, 2> kDevices = {"cpu", "cuda"};
constexpr std::array<Word, 4> kAccumulates = {"unknown", "fp32", "fp32_truncated", "tensor_core"};
constexpr std::array<Word, 3> kFlushes = {"none", "results", "operands"};
constexpr std::array<Word, 2> kScales = {"before", "after"};
constexpr std::array<Word, 3> kShifts = {"exact_max", "fused_stored", "other"};
constexpr std::array<Word, 2> kProbabilities = {"ratio", "exp_of_lse"};
constexpr std::array<Word, 2> kConventionSides = {"either", "definition"};

// Reads a list of some of the names, at least one and none twice.
template <class Value>
void ReadList(FieldVisitor& io, std::string_view key, Names names, std::vector<Value>* out) {
  if (!io.Has(key, false)) return;
  Json json;
  io.Verbatim(key, json);
  const Json::Array* array = json.as_array();
  std::vector<Value> values;
  bool good = array != nullptr && !array->empty();
  for (size_t i = 0; good && i < array->size(); ++i) {
    const std::string* name = (*array)[i].as_string();
    const auto value = name != nullptr ? ValueOf<Value>(*name, names) : std::nullopt;
    good = value && std::find(values.begin(), values.end(), *value) == values.end();
    if (good) values.push_back(*value);
  }
  if (!good) {
    return io.Wrong(key, "a list, not empty and without repetition, of " + Choices(names));
  }
  *out = std::move(values);
}

// Like the above, for two names that are kept as one flag each.
void ReadFlags(FieldVisitor& io, std::string_view key, Names names, bool* first, bool* second) {
  std::vector<size_t> values;
  ReadList(io, key, names, &values);
  if (values.empty()) return;
  *first = std::count(values.begin(), values.end(), 0) != 0;
  *second = std::count(values.begin(), values.end(), 1) != 0;
}

void ReadDtype(FieldVisitor& io, std::string_view key, std::optional<DType>* dtype) {
  if (io.Has(key, false)) io(key, dtype->emplace(DType::kBf16), kDtypes);
}

// Reads the dtype of a step.
void ReadStep(FieldVisitor& io, std::string_view key, oracle::StepDType* step) {
  if (!io.Has(key, false)) return;
  size_t word = 0;
  io(key, word, kStepDtypes);
  const bool of_hidden = word == kDtypes.size();
  *step = of_hidden ? oracle::StepDType::OfHidden() : oracle::StepDType(static_cast<DType>(word));
}

using OutputDtypes = std::array<oracle::StepDType, oracle::kOutputs.size()>;
struct DeclaredOutputs {
  OutputDtypes* dtypes;
};
void Fields(FieldVisitor& io, DeclaredOutputs& outputs) {
  io.AllowAbsent();
  for (const oracle::Output output : oracle::kOutputs) {
    ReadStep(io, oracle::Name(output), &(*outputs.dtypes)[static_cast<size_t>(output)]);
  }
}

// Reads a number up to the largest for which the bounds are derived. The message of one beyond it says
// so.
void ReadProven(FieldVisitor& io, std::string_view key, double most, std::string_view unit,
                double* number) {
  io(key, *number);
  // Written so that a NaN is out of the range.
  if (*number >= 0 && *number <= most) return;
  io.Wrong(key, "a number in [0, " + Json(most).Dump() + "]" + std::string(unit) +
                    ": the error bounds are proven for no larger one");
}

// Reads an error or a number of roundings.
void ReadError(FieldVisitor& io, std::string_view key, double* error) {
  ReadProven(io, key, oracle::kMostError, " in units of 2^-24", error);
}

// The most bytes of the whole text; and of the name and the version, which are printed and stand in
// journals.
constexpr size_t kMaxText = size_t{1} << 20, kMaxLabel = 100;
constexpr size_t kMaxLines = 16, kMaxLine = 300;  // of cannot_show

bool IsLabel(const std::string& text) {
  return text.size() <= kMaxLabel &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Reads a power of two.
void ReadAlignment(FieldVisitor& io, std::string_view key, int64_t* bytes) {
  io(key, *bytes);
  const bool power = *bytes >= 1 && *bytes <= kMostAlignment && (*bytes & (*bytes - 1)) == 0;
  if (!power) io.Wrong(key, "a power of two from 1 to " + std::to_string(kMostAlignment));
}

// Reads the contract, and sees which keys are absent.
struct DeclaredContract {
  oracle::Contract contract;
  Assumptions assumptions{.exact_scale = true, .tiles = true};
};

void Fields(FieldVisitor& io, DeclaredContract& declared);

}  // namespace

void Fields(FieldVisitor& io, Capabilities& c) {
  io.AllowAbsent();
  ReadList(io, "dtypes", kDtypes, &c.dtypes);
  ReadFlags(io, "weight_layouts", kWeightLayouts, &c.vocab_major, &c.hidden_major);
  ReadFlags(io, "label_dtypes", kLabelDtypes, &c.label_int32, &c.label_int64);
  io("temperature", c.temperature, kTemperatures);
  ReadList(io, "reductions", kReductionNames, &c.reductions);
  io("ignore_index", c.ignore_index);
  io("entropy", c.entropy);
  io("lse", c.lse);
  io("grad_hidden", c.grad_hidden);
  io("grad_weight", c.grad_weight);
  io("fp32_grads", c.fp32_grads);
  io("strided_inputs", c.strided_inputs);
  io("zero_stride_grads", c.zero_stride_grads);
  io("special_values", c.special_values);
  io("invalid_labels", c.invalid_labels);
  io("deterministic", c.deterministic);
  io("batch_invariant", c.batch_invariant);
  io("negative_strides", c.negative_strides);
  io("empty_extents", c.empty_extents);
  io("first_invalid_row", c.first_invalid_row);
  ReadAlignment(io, "base_alignment", &c.base_alignment);
  ReadAlignment(io, "row_alignment", &c.row_alignment);
  io("hidden_multiple", c.hidden_multiple, 1, INT64_MAX);
  io("vocab_multiple", c.vocab_multiple, 1, INT64_MAX);
  io("rows_multiple", c.rows_multiple, 1, INT64_MAX);
}

namespace {

void Fields(FieldVisitor& io, DeclaredContract& declared) {
  constexpr int kMostCount = 1 << 20;
  oracle::Contract& c = declared.contract;
  io.AllowAbsent();
  io("accumulate", c.accumulate, kAccumulates);
  io("block", c.block, 1, kMostCount);
  io("extra_bits", c.extra_bits, 0, 64);
  io("split", c.split, 1, kMostCount);
  io("input_planes", c.input_planes, INT_MIN, INT_MAX);
  ReadStep(io, "partials", &c.partials);
  if (c.partials.Narrow() && c.split == 1) io.Wrong("partials", "with a split of at least 2");
  if (c.input_planes != 1 && c.input_planes != 3) io.Wrong("input_planes", "1 or 3");
  ReadProven(io, "input_rounding", oracle::kMostInputRounding, "", &c.input_rounding);
  io("flush", c.flush, kFlushes);
  ReadStep(io, "logits", &c.logits);
  ReadStep(io, "scaled_logits", &c.scaled_logits);
  io("scale", c.scale, kScales);
  if (c.scaled_logits.Narrow() && c.scale == oracle::Scale::kAfter) {
    io.Wrong("scale", "\"before\": scaled_logits are rounded before the maximum is subtracted");
  }
  ReadError(io, "scale_roundings", &c.scale_roundings);
  io("scale_exact_powers", c.scale_exact_powers);
  io("shift", c.shift, kShifts);
  ReadError(io, "exp_error", &c.exp_error);
  io("exp_gradual", c.exp_gradual);
  ReadError(io, "argument_roundings", &c.argument_roundings);
  ReadError(io, "log_error_absolute", &c.log_error_absolute);
  ReadError(io, "log_error_relative", &c.log_error_relative);
  ReadError(io, "division_error", &c.division_error);
  io("tile", c.tile, 1, INT64_MAX);
  io("tile_depth", c.tile_depth, 0, INT64_MAX);
  io("splits", c.splits, 1, INT64_MAX);
  if (io.Has("rescales", false)) io("rescales", c.rescales.emplace(0), 0, INT64_MAX);
  ReadStep(io, "softmax_sum", &c.softmax_sum);
  io("label_logit_separate", c.label_logit_separate);
  io("plain_logprob", c.plain_logprob);
  io("plain_entropy", c.plain_entropy);
  io("entropy_of_probabilities", c.entropy_of_probabilities);
  io("log_softmax_backward", c.log_softmax_backward);
  ReadStep(io, "log_probs", &c.log_probs);
  ReadStep(io, "probabilities", &c.probabilities);
  io("recompute_same_bits", c.recompute_same_bits);
  io("probability", c.probability, kProbabilities);
  ReadProven(io, "kept_argument", oracle::kMostKeptArgument, "", &c.kept_argument);
  if (c.kept_argument > 0 && (c.log_softmax_backward || c.log_probs.Narrow())) {
    io.Wrong("kept_argument", "0: log_softmax_backward and log_probs keep log-probabilities");
  }
  oracle::StepDType d_logits = oracle::StepDType::OfHidden();
  ReadStep(io, "d_logits", &d_logits);
  if (d_logits != oracle::StepDType::OfHidden()) {
    c.d_logits = d_logits.For(DType::kF32).value_or(DType::kF32);
  }
  ReadDtype(io, "accumulator", &c.accumulator);
  io("vocab_chunk", c.vocab_chunk, 0, INT64_MAX);
  io("row_chunk", c.row_chunk, 0, INT64_MAX);
  io("grad_hidden_stretch", c.grad_hidden_stretch, 0, INT64_MAX);
  io("grad_hidden_stretches", c.grad_hidden_stretches, 0, INT64_MAX);
  ReadProven(io, "filter", 1, "", &c.filter);
  ReadStep(io, "upstream_logprob", &c.upstream_logprob);
  ReadStep(io, "upstream_entropy", &c.upstream_entropy);
  DeclaredOutputs outputs{&c.outputs};
  io("outputs", outputs);
  size_t side = c.promises.definition ? 1 : 0;
  io("conventions", side, kConventionSides);
  c.promises.definition = side == 1;
  io("signs", c.promises.signs);
  for (const Word key : {"scale", "scale_roundings", "scale_exact_powers"}) {
    if (io.Has(key, false)) declared.assumptions.exact_scale = false;
  }
  for (const Word key : {"tile", "tile_depth", "splits", "rescales"}) {
    if (io.Has(key, false)) declared.assumptions.tiles = false;
  }
}

}  // namespace

void Fields(FieldVisitor& io, Description& d) {
  io("name", d.name);
  if (d.name.empty()) io.Wrong("name", "a string that says what it is");
  io.AllowAbsent();
  io("version", d.version);
  for (const auto& [key, value] : {std::pair("name", &d.name), {"version", &d.version}}) {
    if (IsLabel(*value)) continue;
    io.Refuse("description." + std::string(key) + " is " + Json(value->substr(0, kMaxLabel)).Dump() +
              ": not at most " + std::to_string(kMaxLabel) + " printable ASCII characters");
  }
  size_t device = 0;
  io("device", device, kDevices);
  d.device = kDevices[device];
  io("declaration", d.declaration);
  io("cannot_show", d.cannot_show);
  for (const std::string& line : d.cannot_show) {
    if (line.size() > kMaxLine || d.cannot_show.size() > kMaxLines) {
      io.Wrong("cannot_show", "at most " + std::to_string(kMaxLines) + " lines of " +
                                  std::to_string(kMaxLine) + " characters");
      break;
    }
  }
  io("capabilities", d.capabilities);
  DeclaredContract declared;
  io("contract", declared);
  d.contract = declared.contract;
  d.assumptions = declared.assumptions;
}

std::optional<Description> ParseDescription(std::string_view json, std::string* error) {
  if (json.size() > kMaxText) {
    *error = "description has " + std::to_string(json.size()) + " bytes, more than " +
             std::to_string(kMaxText);
    return std::nullopt;
  }
  std::string why;
  std::optional<Json> parsed = Json::Parse(json, &why);
  if (!parsed) {
    *error = "description is not JSON: " + why;
    return std::nullopt;
  }
  const Json* contract = parsed->Find("contract");
  if (contract != nullptr && contract->as_string() != nullptr) {
    std::optional<Json> named = ContractNamed(*contract->as_string(), error);
    if (!named) return std::nullopt;
    (*parsed)["contract"] = *std::move(named);
  }
  return FromJson<Description>(*parsed, "description", error);
}

std::optional<Capabilities> ParseCapabilities(std::string_view json, std::string* error) {
  const std::optional<Json> parsed = Json::Parse(json, error);
  return parsed ? FromJson<Capabilities>(*parsed, "capabilities", error) : std::nullopt;
}

}  // namespace plumbline::fuzz
