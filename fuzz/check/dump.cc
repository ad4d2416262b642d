// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/dump.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <system_error>
#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/cases/file.h"
#include "fuzz/check/doubles.h"
#include "fuzz/check/dump_shapes.h"
#include "fuzz/check/rollout.h"
#include "fuzz/check/vocabulary.h"
#include "fuzz/problem/safetensors.h"
#include "fuzz/problem/values.h"
#include "kernel/linear_cross_entropy.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using kernel::Reduction;
using oracle::Output;

// The limit on the columns of a weight without bytes. Otherwise the file's size bounds the oracle's
// memory, some 24 bytes a column.
constexpr int64_t kMaxEmptyColumns = int64_t{1} << 24;

// A refusal as text; empty means none.
using Refusal = std::string;

Refusal Misaligned(const std::string& name, const ConstTensor& tensor) {
  const size_t element = kernel::SizeOf(tensor.dtype);
  if (tensor.size() == 0 || reinterpret_cast<uintptr_t>(tensor.data) % element == 0) return {};
  return name + ": its data are not aligned to its elements of " + std::to_string(element) +
         " bytes in the file; write it with safetensors 0.3 or later";
}

Refusal ReadOptions(const std::map<std::string, std::string>& metadata, Dump* dump) {
  kernel::Problem& p = dump->problem;
  if (const auto json_text = metadata.find("case"); json_text != metadata.end()) {
    std::string why;
    const std::optional<Json> json = Json::Parse(json_text->second, &why);
    if (!json) return "metadata \"case\": " + why;
    Case c;
    std::optional<Expansion> expansion;
    if (why = CaseFromJson(*json, &c, &expansion); !why.empty()) return "metadata \"case\": " + why;
    if (expansion) return "metadata \"case\": a case without tensors: plumb replay runs it";
    p.ignore_index = c.problem.ignore_index;
    p.reduction = c.problem.reduction;
    dump->wanted = c.problem.wanted;
    // These parts of a layout change values: element 0, or row 0, stands for all rows.
    Broadcast(c.problem.layout, &p);
    return {};
  }
  const bool gradients = p.grad_logprob || p.grad_entropy;
  dump->wanted.grad_hidden = dump->wanted.grad_weight = gradients;
  if (const auto text = metadata.find("ignore_index"); text != metadata.end()) {
    const char* const end = text->second.data() + text->second.size();
    const auto [stop, code] = std::from_chars(text->second.data(), end, p.ignore_index);
    if (code != std::errc{} || stop != end) {
      return "metadata \"ignore_index\" is \"" + text->second + "\", not an integer of 64 bits";
    }
  }
  if (const auto text = metadata.find("gradients"); text != metadata.end()) {
    if (text->second != "fp32" && text->second != "input") {
      return "metadata \"gradients\" is \"" + text->second + "\", not one of fp32, input";
    }
    dump->wanted.fp32_grads = text->second == "fp32";
  }
  if (const auto text = metadata.find("reduction"); text != metadata.end()) {
    const auto named = ValueOf<Reduction>(text->second, kReductionNames);
    if (!named) {
      return "metadata \"reduction\" is \"" + text->second + "\", not one of " +
             Choices(kReductionNames);
    }
    p.reduction = *named;
  }
  return {};
}

// Makes checks that the operator does not: outputs of one value a row may be narrower than fp32, and
// loss and logprob may come together.
Refusal CheckOutputs(const Dump& dump) {
  const int64_t n = dump.problem.rows();
  for (Output o : oracle::kOutputs) {
    const auto& tensor = dump.output(o);
    if (!tensor || o == Output::kGradHidden || o == Output::kGradWeight) continue;
    const std::string name(oracle::Name(o));
    if (!kernel::IsFloat(tensor->dtype)) {
      return name + ": dtype " + std::string(kernel::Name(tensor->dtype)) +
             ", must be fp32, bf16 or fp16";
    }
    const std::vector<int64_t> wanted =
        o == Output::kLoss ? std::vector<int64_t>{} : std::vector<int64_t>{n};
    const std::vector<int64_t> shape(tensor->shape, tensor->shape + tensor->rank);
    if (o == Output::kLoss && shape == std::vector<int64_t>{n} && n != 1) {
      return "loss: shape " + ShapeText(shape) +
             " is one value a row: store -loss as logprob and no loss, with reduction none";
    }
    if (shape != wanted) {
      return name + ": shape " + ShapeText(shape) + ", must be " + ShapeText(wanted) +
             (o == Output::kLoss ? "" : ", one value a row of hidden") + Flattened(*tensor, n);
    }
  }
  const bool has_gradient = dump.output(Output::kGradHidden) || dump.output(Output::kGradWeight);
  if (has_gradient && !dump.problem.grad_logprob && !dump.problem.grad_entropy) {
    return "grad_hidden and grad_weight: present, but neither grad_logprob nor grad_entropy is, and "
           "without them every gradient is 0";
  }
  if (dump.output(Output::kLoss) && dump.problem.reduction == Reduction::kNone) {
    return "loss: present, but metadata \"reduction\" does not say sum or mean";
  }
  return {};
}

// Checks shapes, dtypes and ranks of inputs and gradients, as the operator does.
Refusal CheckArguments(const Dump& dump) {
  kernel::Results gradients;
  if (const auto& t = dump.output(Output::kGradHidden)) gradients.grad_hidden = AsResult(*t);
  if (const auto& t = dump.output(Output::kGradWeight)) gradients.grad_weight = AsResult(*t);
  kernel::Sizes sizes;
  const kernel::Status status = kernel::GetSizes(dump.problem, gradients, {}, &sizes);
  if (!status.ok()) return status.message;
  if (dump.problem.hidden_size() == 0 && dump.problem.vocab() > kMaxEmptyColumns) {
    return "weight: V = " + std::to_string(dump.problem.vocab()) + " with H = 0, at most " +
           std::to_string(kMaxEmptyColumns);
  }
  const std::optional<ConstTensor>& t = dump.problem.temperature;
  if (!t || t->rank > 0) return {};  // a bad one of a single row makes only that row NaN
  const double value = oracle::ReadElement(*t, 0, 0);
  if (std::isfinite(value) && value > 0) return {};
  return "temperature: " + std::to_string(value) + " is not finite and positive";
}

Refusal Read(std::optional<int64_t> vocabulary, Dump* dump) {
  std::string why;
  std::optional<SafeTensorsView> content = ViewSafeTensors(dump->file->bytes(), &why, true);
  if (!content) return why;
  if (why = RoundDoubles(&*content, dump); !why.empty()) return why;
  for (const auto& [name, tensor] : content->tensors) {
    if (why = Misaligned(name, tensor); !why.empty()) return why;
  }
  const std::string found = Listed(content->tensors);
  const auto take = [&](std::string_view name) -> std::optional<ConstTensor> {
    auto node = content->tensors.extract(std::string(name));
    return node.empty() ? std::nullopt : std::optional(node.mapped());
  };
  kernel::Problem& p = dump->problem;
  for (const auto& [name, place] : {std::pair("hidden", &p.hidden), std::pair("weight", &p.weight),
                                    std::pair("labels", &p.labels)}) {
    const std::optional<ConstTensor> tensor = take(name);
    if (!tensor) return Missing(name, found);
    *place = *tensor;
  }
  p.temperature = take("temperature");
  p.grad_logprob = take("grad_logprob");
  p.grad_entropy = take("grad_entropy");
  for (Output o : oracle::kOutputs) dump->outputs[static_cast<size_t>(o)] = take(oracle::Name(o));
  for (const char* name : {"rollout_logprob", "old_logprob"}) {
    if (const auto tensor = take(name)) dump->rollouts.emplace_back(name, *tensor);
  }
  for (const auto& [name, tensor] : content->tensors) dump->unknown.push_back(name);

  if (why = ReadOptions(content->metadata, dump); !why.empty()) return why;
  TakeScalars(dump);
  if (why = CheckShapes(*dump); !why.empty()) return why;
  if (why = CutVocabulary(content->metadata, vocabulary, dump); !why.empty()) return why;
  if (why = CheckArguments(*dump); !why.empty()) return why;
  if (why = CheckOutputs(*dump); !why.empty()) return why;
  if (why = CheckRollouts(*dump); !why.empty()) return why;
  if (why = ReadShards(content->metadata, dump); !why.empty()) return why;
  for (int64_t i = 0; i < p.rows(); ++i)
    dump->counted += oracle::ReadInt(p.labels, i) != p.ignore_index;
  return {};
}

}  // namespace

bool Dump::HasOutputs() const {
  return std::any_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.has_value(); });
}

std::unique_ptr<Dump> OpenDump(const std::filesystem::path& path, std::string* error,
                               std::optional<int64_t> vocabulary) {
  auto dump = std::make_unique<Dump>();
  dump->path = path;
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    *error = path.string() +
             ": is a folder; python -m plumbline.dump joins the dumps of several ranks in it to one";
    return nullptr;
  }
  dump->file = MappedFile::Open(path, error);
  if (!dump->file) return nullptr;
  if (Refusal why = Read(vocabulary, dump.get()); !why.empty()) {
    *error = path.string() + ": " + why;
    return nullptr;
  }
  return dump;
}

}  // namespace plumbline::fuzz
