// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Description Parsed(const std::string& json) {
  std::string error;
  const auto description = ParseDescription(json, &error);
  EXPECT_TRUE(description.has_value()) << json << ": " << error;
  return description.value_or(Description());
}

std::string Refusal(const std::string& json) {
  std::string error;
  EXPECT_FALSE(ParseDescription(json, &error).has_value()) << json;
  return error;
}

// Makes {"name":"x","capabilities":{KEY:VALUE}} for "capabilities.KEY", and so on.
std::string With(const std::string& path, const std::string& value) {
  const size_t dot = path.find('.');
  if (dot == path.npos) {
    return path == "name" ? "{\"name\":" + value + "}"
                          : "{\"name\":\"x\",\"" + path + "\":" + value + "}";
  }
  return "{\"name\":\"x\",\"" + path.substr(0, dot) + "\":{\"" + path.substr(dot + 1) + "\":" + value +
         "}}";
}

// Lists every key, a value that is not its default, and the one field that it must change. The field is
// read back through the struct, not through the parser.
struct Row {
  const char* path;
  const char* value;
  std::function<bool(const Description&)> changed;
};

using D = const Description&;

std::vector<Row> CapabilityRows() {
  return {
      {"name", "\"y\"", [](D d) { return d.name == "y"; }},
      {"version", "\"2.1\"", [](D d) { return d.version == "2.1"; }},
      {"device", "\"cuda\"", [](D d) { return d.device == "cuda"; }},
      {"cannot_show", "[\"x\"]", [](D d) { return d.cannot_show == std::vector<std::string>{"x"}; }},
      {"declaration", "\"@y\"", [](D d) { return d.declaration == "@y"; }},
      {"capabilities.dtypes", "[\"fp16\"]",
       [](D d) { return d.capabilities.dtypes == std::vector{DType::kF16}; }},
      {"capabilities.weight_layouts", "[\"hidden_major\"]",
       [](D d) { return !d.capabilities.vocab_major && d.capabilities.hidden_major; }},
      {"capabilities.label_dtypes", "[\"int32\"]",
       [](D d) { return d.capabilities.label_int32 && !d.capabilities.label_int64; }},
      {"capabilities.temperature", "\"scalar\"",
       [](D d) { return d.capabilities.temperature == TemperatureSupport::kScalar; }},
      {"capabilities.reductions", "[\"mean\",\"none\"]",
       [](D d) {
         return d.capabilities.reductions == std::vector{Reduction::kMean, Reduction::kNone};
       }},
      {"capabilities.hidden_multiple", "8", [](D d) { return d.capabilities.hidden_multiple == 8; }},
      {"capabilities.vocab_multiple", "128", [](D d) { return d.capabilities.vocab_multiple == 128; }},
      {"capabilities.rows_multiple", "2", [](D d) { return d.capabilities.rows_multiple == 2; }},
      {"capabilities.entropy", "false", [](D d) { return !d.capabilities.entropy; }},
      {"capabilities.lse", "false", [](D d) { return !d.capabilities.lse; }},
      {"capabilities.grad_hidden", "false", [](D d) { return !d.capabilities.grad_hidden; }},
      {"capabilities.grad_weight", "false", [](D d) { return !d.capabilities.grad_weight; }},
      {"capabilities.fp32_grads", "false", [](D d) { return !d.capabilities.fp32_grads; }},
      {"capabilities.strided_inputs", "false", [](D d) { return !d.capabilities.strided_inputs; }},
      {"capabilities.zero_stride_grads", "false",
       [](D d) { return !d.capabilities.zero_stride_grads; }},
      {"capabilities.negative_strides", "false", [](D d) { return !d.capabilities.negative_strides; }},
      {"capabilities.base_alignment", "16", [](D d) { return d.capabilities.base_alignment == 16; }},
      {"capabilities.row_alignment", "64", [](D d) { return d.capabilities.row_alignment == 64; }},
      {"capabilities.empty_extents", "false", [](D d) { return !d.capabilities.empty_extents; }},
      {"capabilities.first_invalid_row", "false",
       [](D d) { return !d.capabilities.first_invalid_row; }},
      {"capabilities.ignore_index", "false", [](D d) { return !d.capabilities.ignore_index; }},
      {"capabilities.invalid_labels", "false", [](D d) { return !d.capabilities.invalid_labels; }},
      {"capabilities.special_values", "false", [](D d) { return !d.capabilities.special_values; }},
      {"capabilities.deterministic", "false", [](D d) { return !d.capabilities.deterministic; }},
      {"capabilities.batch_invariant", "false", [](D d) { return !d.capabilities.batch_invariant; }},
  };
}

std::vector<Row> ContractRows() {
  return {
      {"contract.accumulate", "\"tensor_core\"",
       [](D d) { return d.contract.accumulate == oracle::Accumulate::kTensorCore; }},
      {"contract.block", "8", [](D d) { return d.contract.block == 8; }},
      {"contract.extra_bits", "1", [](D d) { return d.contract.extra_bits == 1; }},
      {"contract.split", "4", [](D d) { return d.contract.split == 4; }},
      {"contract.partials", R"("bf16", "split": 3)",
       [](D d) { return d.contract.partials == oracle::StepDType(DType::kBf16); }},
      {"contract.logits", R"("bf16")",
       [](D d) { return d.contract.logits == oracle::StepDType(DType::kBf16); }},
      {"contract.scaled_logits", R"("fp16")",
       [](D d) { return d.contract.scaled_logits == oracle::StepDType(DType::kF16); }},
      {"contract.softmax_sum", R"("fp16")",
       [](D d) { return d.contract.softmax_sum == oracle::StepDType(DType::kF16); }},
      {"contract.log_probs", R"("input")",
       [](D d) { return d.contract.log_probs == oracle::StepDType::OfHidden(); }},
      {"contract.probabilities", R"("bf16")",
       [](D d) { return d.contract.probabilities == oracle::StepDType(DType::kBf16); }},
      {"contract.filter", "0.25", [](D d) { return d.contract.filter == 0.25; }},
      {"contract.upstream_logprob", R"("fp16")",
       [](D d) { return d.contract.upstream_logprob == oracle::StepDType(DType::kF16); }},
      {"contract.upstream_entropy", R"("input")",
       [](D d) { return d.contract.upstream_entropy == oracle::StepDType::OfHidden(); }},
      {"contract.outputs", R"({"lse": "bf16"})",
       [](D d) {
         const auto lse = static_cast<size_t>(oracle::Output::kLse);
         return d.contract.outputs[lse] == oracle::StepDType(DType::kBf16);
       }},
      {"contract.input_planes", "3", [](D d) { return d.contract.input_planes == 3; }},
      {"contract.input_rounding", "0.00048828125",
       [](D d) { return d.contract.input_rounding == 0x1p-11; }},
      {"contract.flush", "\"operands\"",
       [](D d) { return d.contract.flush == oracle::Flush::kOperands; }},
      {"contract.scale", "\"after\"", [](D d) { return d.contract.scale == oracle::Scale::kAfter; }},
      {"contract.scale_roundings", "2.5", [](D d) { return d.contract.scale_roundings == 2.5; }},
      {"contract.scale_exact_powers", "true", [](D d) { return d.contract.scale_exact_powers; }},
      {"contract.shift", "\"fused_stored\"",
       [](D d) { return d.contract.shift == oracle::Shift::kFusedStored; }},
      {"contract.exp_error", "2", [](D d) { return d.contract.exp_error == 2; }},
      {"contract.conventions", "\"definition\"",
       [](D d) { return d.contract.promises.definition && !d.contract.promises.signs; }},
      {"contract.signs", "true",
       [](D d) { return d.contract.promises.signs && !d.contract.promises.definition; }},
      {"contract.exp_gradual", "true", [](D d) { return d.contract.exp_gradual; }},
      {"contract.argument_roundings", "1", [](D d) { return d.contract.argument_roundings == 1; }},
      {"contract.log_error_absolute", "0", [](D d) { return d.contract.log_error_absolute == 0; }},
      {"contract.log_error_relative", "1.1", [](D d) { return d.contract.log_error_relative == 1.1; }},
      {"contract.division_error", "1", [](D d) { return d.contract.division_error == 1; }},
      {"contract.tile", "64", [](D d) { return d.contract.tile == 64; }},
      {"contract.tile_depth", "7", [](D d) { return d.contract.tile_depth == 7; }},
      {"contract.splits", "8", [](D d) { return d.contract.splits == 8; }},
      {"contract.rescales", "0", [](D d) { return d.contract.rescales == 0; }},
      {"contract.label_logit_separate", "false", [](D d) { return !d.contract.label_logit_separate; }},
      {"contract.plain_logprob", "true", [](D d) { return d.contract.plain_logprob; }},
      {"contract.plain_entropy", "true", [](D d) { return d.contract.plain_entropy; }},
      {"contract.entropy_of_probabilities", "true",
       [](D d) { return d.contract.entropy_of_probabilities; }},
      {"contract.log_softmax_backward", "true", [](D d) { return d.contract.log_softmax_backward; }},
      {"contract.recompute_same_bits", "true", [](D d) { return d.contract.recompute_same_bits; }},
      {"contract.probability", "\"ratio\"",
       [](D d) { return d.contract.probability == oracle::Probability::kRatio; }},
      {"contract.kept_argument", "0.00048828125",
       [](D d) { return d.contract.kept_argument == 0x1p-11; }},
      {"contract.d_logits", "\"bf16\"", [](D d) { return d.contract.d_logits == DType::kBf16; }},
      {"contract.accumulator", "\"bf16\"", [](D d) { return d.contract.accumulator == DType::kBf16; }},
      {"contract.vocab_chunk", "4096", [](D d) { return d.contract.vocab_chunk == 4096; }},
      {"contract.row_chunk", "1024", [](D d) { return d.contract.row_chunk == 1024; }},
      {"contract.grad_hidden_stretch", "9600",
       [](D d) { return d.contract.grad_hidden_stretch == 9600; }},
      {"contract.grad_hidden_stretches", "16",
       [](D d) { return d.contract.grad_hidden_stretches == 16; }},
  };
}

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all = CapabilityRows();
    for (const Row& row : ContractRows()) all.push_back(row);
    return all;
  }();
  return rows;
}

// Fails if a key is not read, is read into another field, or shares one with another key: each value
// must set its own field and leave every other field as a silent description leaves it.
TEST(Description, EveryKeySetsItsOwnField) {
  const Description silent = Parsed(R"({"name":"x"})");
  for (const Row& row : Rows()) EXPECT_FALSE(row.changed(silent)) << row.path << " is at " << row.value;
  for (const Row& row : Rows()) {
    const Description description = Parsed(With(row.path, row.value));
    for (const Row& other : Rows()) {
      EXPECT_EQ(other.changed(description), &other == &row) << row.path << " and " << other.path;
    }
  }
}

// The rows of the tables in fuzz/target/DESCRIPTION.md: key and the cell that says what absent means.
std::map<std::string, std::string> DocumentedKeys() {
  std::ifstream file(PLUMBLINE_SOURCE_DIR "/fuzz/target/DESCRIPTION.md");
  EXPECT_TRUE(file.is_open());
  std::map<std::string, std::string> keys;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t end = line.find('`', 3), cell = line.rfind(" | ");
    std::string absent = line.substr(cell + 3);
    absent.resize(absent.rfind(" |"));
    keys[line.substr(3, end - 3)] = absent;
  }
  return keys;
}

// Fails if a key is documented but does not exist, exists but is not documented, or has another default
// than documented: a description with all documented defaults spelled out must say the same as a silent
// one.
TEST(Description, DocumentAndProgramAgree) {
  std::map<std::string, std::string> documented = DocumentedKeys();
  documented.erase("capabilities");  // the row of the two objects themselves
  std::set<std::string> keys, known;
  for (const auto& [key, absent] : documented) keys.insert(key);
  for (const Row& row : Rows()) known.insert(row.path);
  EXPECT_EQ(keys, known);

  for (const Row& row : Rows()) {
    const std::string absent = documented[row.path];
    if (absent == "required" || absent.starts_with("*absent*")) continue;
    ASSERT_GT(absent.size(), 2u) << row.path;
    const Description spelled = Parsed(With(row.path, absent.substr(1, absent.size() - 2)));
    const Description silent = Parsed(R"({"name":"x"})");
    // Compares field by field, by the struct's printed form, since Description has no equality of its
    // own.
    const auto fields = [](const Description& d) {
      const auto& c = d.capabilities;
      const auto& k = d.contract;
      return std::make_tuple(
          d.version, d.device, d.cannot_show, d.declaration, c.dtypes, c.vocab_major, c.hidden_major,
          c.label_int32, c.label_int64, c.temperature, c.reductions,
          std::vector<bool>{c.ignore_index,
                            c.entropy,
                            c.lse,
                            c.grad_hidden,
                            c.grad_weight,
                            c.fp32_grads,
                            c.strided_inputs,
                            c.zero_stride_grads,
                            c.special_values,
                            c.invalid_labels,
                            c.deterministic,
                            c.batch_invariant,
                            k.exp_gradual,
                            k.label_logit_separate,
                            k.plain_logprob,
                            k.plain_entropy,
                            k.entropy_of_probabilities,
                            k.log_softmax_backward,
                            k.recompute_same_bits,
                            k.promises.definition,
                            k.promises.signs},
          std::vector<int64_t>{c.hidden_multiple, c.vocab_multiple, c.rows_multiple, k.block,
                               k.extra_bits, k.split, k.tile, k.tile_depth, k.splits, k.vocab_chunk,
                               k.row_chunk, k.grad_hidden_stretch, k.grad_hidden_stretches},
          std::vector<double>{k.input_rounding, k.scale_roundings, k.exp_error, k.argument_roundings,
                              k.log_error_absolute, k.log_error_relative, k.division_error, k.filter,
                              k.kept_argument},
          k.accumulate, k.flush, k.scale, k.shift, k.probability, k.d_logits, k.accumulator,
          k.rescales);
    };
    EXPECT_EQ(fields(spelled), fields(silent)) << row.path << " documented as " << absent;
  }
}

// Fails if a contract is not taken by its name, or what the name stands for is not what an object says.
TEST(Description, AContractByItsName) {
  const Description description = Parsed(With("contract", "\"fp32\""));
  EXPECT_EQ(description.contract.accumulate, oracle::Accumulate::kFp32);
  EXPECT_TRUE(description.assumptions.tiles);
  EXPECT_FALSE(Parsed(With("contract", "\"cublas\"")).assumptions.tiles);
}

// Each fails if a spelling of an enumerator is dropped or stands for another.
TEST(Description, EverySpelling) {
  const auto contract = [](const char* key, const char* value) {
    return Parsed(With(std::string("contract.") + key, value)).contract;
  };
  using namespace oracle;
  EXPECT_EQ(contract("accumulate", "\"unknown\"").accumulate, Accumulate::kUnknown);
  EXPECT_EQ(contract("accumulate", "\"fp32\"").accumulate, Accumulate::kFp32);
  EXPECT_EQ(contract("accumulate", "\"fp32_truncated\"").accumulate, Accumulate::kFp32Truncated);
  EXPECT_EQ(contract("flush", "\"results\"").flush, Flush::kResults);
  EXPECT_EQ(contract("shift", "\"exact_max\"").shift, Shift::kExactMax);
  EXPECT_EQ(contract("d_logits", "\"fp32\"").d_logits, DType::kF32);
  EXPECT_EQ(contract("d_logits", "\"fp16\"").d_logits, DType::kF16);
  EXPECT_EQ(Parsed(With("capabilities.temperature", "\"none\"")).capabilities.temperature,
            TemperatureSupport::kNone);
  EXPECT_THAT(Parsed(With("capabilities.reductions", "[\"sum\"]")).capabilities.reductions,
              ElementsAre(Reduction::kSum));
  EXPECT_THAT(Parsed(With("capabilities.dtypes", "[\"fp32\",\"bf16\"]")).capabilities.dtypes,
              ElementsAre(DType::kF32, DType::kBf16));
}

// Each fails if the fault named is let through. The message must name the key and the value.
TEST(Description, Refusals) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> rows = {
      {"", {"not JSON"}},
      {"[]", {"description", "[]"}},
      {"{}", {"description.name", "missing"}},
      {R"({"name":""})", {"description.name", "\"\""}},
      {R"({"name":3})", {"description.name", "3"}},
      {R"({"name":"x","nmae":1})", {"description.nmae", "unknown key", "1"}},
      {With("device", "\"tpu\""), {"description.device", "\"tpu\"", "cpu, cuda"}},
      {With("capabilities", "[]"), {"capabilities", "[]"}},
      {With("capabilities.dtype", "[\"fp32\"]"), {"capabilities.dtype", "unknown key"}},
      {With("capabilities.dtypes", "[]"), {"capabilities.dtypes", "[]"}},
      {With("capabilities.dtypes", "\"fp32\""), {"capabilities.dtypes", "\"fp32\""}},
      {With("capabilities.dtypes", "[\"fp64\"]"), {"capabilities.dtypes", "fp64", "bf16, fp16, fp32"}},
      {With("capabilities.dtypes", "[\"fp32\",\"fp32\"]"),
       {"capabilities.dtypes", "without repetition"}},
      {With("capabilities.label_dtypes", "[\"int16\"]"), {"capabilities.label_dtypes", "int16"}},
      {With("capabilities.entropy", "1"), {"capabilities.entropy", "1", "a boolean"}},
      {With("capabilities.entropy", "null"), {"capabilities.entropy", "null"}},
      {With("capabilities.hidden_multiple", "0"), {"capabilities.hidden_multiple", "0"}},
      {With("capabilities.hidden_multiple", "8.0"), {"capabilities.hidden_multiple", "8.0"}},
      {With("contract.tile", "0"), {"contract.tile", "0"}},
      {With("contract.block", "4294967312"), {"contract.block", "4294967312"}},
      {With("contract.exp_error", "-1"), {"contract.exp_error", "-1"}},
      {With("contract.exp_error", "\"nan\""), {"contract.exp_error", "nan"}},
      {With("contract.exp_error", "\"inf\""), {"contract.exp_error", "inf"}},
      {With("contract.input_planes", "2"), {"contract.input_planes", "2", "1 or 3"}},
      {With("contract.input_rounding", "0.5"), {"contract.input_rounding", "0.5", "0.25", "proven"}},
      {With("contract.scale_roundings", "4097"), {"contract.scale_roundings", "4097", "[0, 4096.0]"}},
      {With("contract.argument_roundings", "1e5"), {"contract.argument_roundings", "proven"}},
      {With("contract.exp_error", "4096.5"), {"contract.exp_error", "4096.5", "2^-24", "proven"}},
      {With("contract.log_error_absolute", "16777216"), {"log_error_absolute", "4096", "proven"}},
      {With("contract.log_error_relative", "16777216"), {"log_error_relative", "4096", "proven"}},
      {With("contract.division_error", "5000"), {"contract.division_error", "5000", "proven"}},
      {With("contract.kept_argument", "0.01"), {"contract.kept_argument", "0.01", "proven"}},
      {R"({"name":"x","contract":{"kept_argument":0.0004,"log_softmax_backward":true}})",
       {"contract.kept_argument", "log_softmax_backward"}},
      {With("contract.accumulate", "\"FP32\""), {"contract.accumulate", "FP32", "tensor_core"}},
      {With("contract.d_logits", "\"int32\""), {"contract.d_logits", "int32"}},
      {With("contract", "\"fp33\""), {"contract \"fp33\" is unknown", "pytorch-fp32-logits"}},
      {With("contract.h_s", "7"), {"contract.h_s", "unknown key"}},
  };
  for (const auto& [json, names] : rows) {
    const std::string error = Refusal(json);
    for (const std::string& name : names) EXPECT_THAT(error, HasSubstr(name)) << json;
  }
}

}  // namespace
}  // namespace plumbline::fuzz
