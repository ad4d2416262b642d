// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/owned_problem.h"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "fuzz/problem/values.h"

namespace plumbline::fuzz {

namespace {

using kernel::BFloat16;
using kernel::DType;
using kernel::Float16;
using kernel::Reduction;

// A problem that was expanded or dumped never has a dimension or a stride beyond this: it would
// overflow the arithmetic that lays the problem out.
constexpr int64_t kMaxDimension = int64_t{1} << 40;
constexpr int64_t kMaxOffset = int64_t{1} << 20;

template <class T>
T Load(const HostTensor& tensor, int64_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void Store(HostTensor& tensor, int64_t i, T value) {
  std::memcpy(tensor.bytes.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
}

// Checks the rank, the dimensions and the number of bytes.
std::optional<std::string> Malformed(std::string_view name, const HostTensor& tensor, size_t rank) {
  const std::string subject(name);
  if (tensor.shape.size() != rank) {
    return subject + ": rank " + std::to_string(tensor.shape.size()) + " of shape " +
           ShapeText(tensor.shape) + ", must be " + std::to_string(rank);
  }
  // Any dimension may be 0, and then the number of bytes does not limit the others: bound them all.
  int64_t elements = 1;
  for (const int64_t dimension : tensor.shape) {
    if (dimension < 0 || dimension > kMaxDimension) {
      return subject + ": dimension " + std::to_string(dimension) + " of shape " +
             ShapeText(tensor.shape) + ", must be 0 to 2^40";
    }
    if (__builtin_mul_overflow(elements, dimension, &elements)) {
      return subject + ": shape " + ShapeText(tensor.shape) + " has more than 2^63 elements";
    }
  }
  const size_t element_size = kernel::SizeOf(tensor.dtype);
  if (element_size == 0 || tensor.bytes.size() % element_size != 0 ||
      tensor.bytes.size() / element_size != static_cast<size_t>(elements)) {
    return subject + ": " + std::to_string(tensor.bytes.size()) + " bytes, shape " +
           ShapeText(tensor.shape) + " of " + std::string(kernel::Name(tensor.dtype)) + " needs " +
           std::to_string(elements) + " elements of " + std::to_string(element_size);
  }
  return std::nullopt;
}

std::optional<std::string> WrongDType(std::string_view name, DType dtype, std::string_view allowed) {
  return std::string(name) + ": dtype " + std::string(kernel::Name(dtype)) + ", must be " +
         std::string(allowed);
}

// Refuses a tensor that is present unless it is fp32 and a scalar or one element a row.
std::optional<std::string> BadPerRow(std::string_view name, const std::optional<HostTensor>& tensor,
                                     size_t rank, int64_t rows) {
  if (!tensor) return std::nullopt;
  if (auto error = Malformed(name, *tensor, rank)) return error;
  if (tensor->dtype != DType::kF32) return WrongDType(name, tensor->dtype, "fp32");
  if (rank == 1 && tensor->shape[0] != rows) {
    return std::string(name) + ": shape " + ShapeText(tensor->shape) + ", hidden has " +
           std::to_string(rows) + " rows";
  }
  return std::nullopt;
}

std::optional<std::string> BadLayout(const Layout& layout) {
  using Limited = std::tuple<const char*, int64_t, int64_t>;
  for (const auto& [name, value, most] : {Limited{"hidden_padding", layout.hidden_padding, kMaxStride},
                                          {"weight_padding", layout.weight_padding, kMaxStride},
                                          {"grad_stride", layout.grad_stride, kMaxStride},
                                          {"label_stride", layout.label_stride, kMaxStride},
                                          {"temperature_stride", layout.temperature_stride, kMaxStride},
                                          {"output_stride", layout.output_stride, kMaxStride},
                                          {"gradient_step", layout.gradient_step, kMaxStride},
                                          {"single_stride", layout.single_stride, kMaxStride},
                                          {"label_offset", layout.label_offset, kMaxOffset},
                                          {"offset", layout.offset, kMaxOffset}}) {
    if (value >= 0 && value <= most) continue;
    return std::string("layout: ") + name + " " + std::to_string(value) + ", must be 0 to " +
           std::to_string(most);
  }
  // Temperatures have no broadcast of their own: a scalar is that. The elements of an output are its
  // own.
  for (const auto& [name, value] : {std::pair{"temperature_stride", layout.temperature_stride},
                                    std::pair{"output_stride", layout.output_stride},
                                    std::pair{"gradient_step", layout.gradient_step},
                                    std::pair{"single_stride", layout.single_stride}}) {
    if (value == 0) return std::string("layout: ") + name + " 0, must be 1 or more";
  }
  return std::nullopt;
}

}  // namespace

int64_t HostTensor::size() const {
  int64_t elements = 1;
  for (const int64_t dimension : shape) elements *= dimension;
  return elements;
}

HostTensor HostTensor::Zeros(DType dtype, std::vector<int64_t> shape) {
  HostTensor tensor{dtype, std::move(shape), {}};
  tensor.bytes.resize(static_cast<size_t>(tensor.size()) * kernel::SizeOf(dtype));
  return tensor;
}

float HostTensor::GetFloat(int64_t i) const {
  if (dtype == DType::kBf16) return kernel::ToFloat(Load<BFloat16>(*this, i));
  if (dtype == DType::kF16) return kernel::ToFloat(Load<Float16>(*this, i));
  if (dtype == DType::kF32) return Load<float>(*this, i);
  std::abort();  // the caller passed a wrong type: no return value would be right
}

void HostTensor::SetFloat(int64_t i, float value) {
  if (dtype == DType::kBf16) return Store(*this, i, kernel::ToBFloat16(value));
  if (dtype == DType::kF16) return Store(*this, i, kernel::ToFloat16(value));
  if (dtype == DType::kF32) return Store(*this, i, value);
  std::abort();
}

int64_t HostTensor::GetInt(int64_t i) const {
  if (dtype == DType::kI32) return Load<int32_t>(*this, i);
  if (dtype == DType::kI64) return Load<int64_t>(*this, i);
  std::abort();
}

void HostTensor::SetInt(int64_t i, int64_t value) {
  if (dtype == DType::kI32) return Store(*this, i, static_cast<int32_t>(value));
  if (dtype == DType::kI64) return Store(*this, i, value);
  std::abort();
}

uint64_t HostTensor::GetBits(int64_t i) const {
  const size_t size = kernel::SizeOf(dtype);
  if (size == 2) return Load<uint16_t>(*this, i);
  return size == 4 ? Load<uint32_t>(*this, i) : Load<uint64_t>(*this, i);
}

void HostTensor::SetBits(int64_t i, uint64_t bits) {
  const size_t size = kernel::SizeOf(dtype);
  if (size == 2) return Store(*this, i, static_cast<uint16_t>(bits));
  if (size == 4) return Store(*this, i, static_cast<uint32_t>(bits));
  Store(*this, i, bits);
}

kernel::ConstTensor HostTensor::View() const { return DenseTensor(dtype, shape, bytes.data()); }

void Fields(FieldVisitor& io, Layout& l) {
  constexpr int64_t kMaxCaseOffset = 65536;  // far beyond any offset that a finding has needed
  io("weight_hidden_major", l.weight_hidden_major);
  io("hidden_padding", l.hidden_padding, 0, kMaxStride);
  io("weight_padding", l.weight_padding, 0, kMaxStride);
  io("label_offset", l.label_offset, 0, kMaxCaseOffset);
  io("grad_stride", l.grad_stride, 0, kMaxStride);
  // These are written only if they differ from the default, so that cases older than the keys keep
  // their bytes.
  if (io.Has("label_stride", l.label_stride != 1)) io("label_stride", l.label_stride, 0, kMaxStride);
  if (io.Has("offset", l.offset != 0)) io("offset", l.offset, 0, kMaxCaseOffset);
  io.IfSet("reversed", l.reversed);
  io.IfSet("hidden_broadcast", l.hidden_broadcast);
  if (io.Has("temperature_stride", l.temperature_stride != 1)) {
    io("temperature_stride", l.temperature_stride, 1, kMaxStride);
  }
  if (io.Has("output_stride", l.output_stride != 1))
    io("output_stride", l.output_stride, 1, kMaxStride);
  if (io.Has("gradient_step", l.gradient_step != 1)) {
    io("gradient_step", l.gradient_step, 1, kMaxStride);
  }
  if (io.Has("single_stride", l.single_stride != 1)) {
    io("single_stride", l.single_stride, 1, kMaxStride);
  }
}

void Fields(FieldVisitor& io, Wanted& w) {
  io("entropy", w.entropy);
  io("lse", w.lse);
  io("grad_hidden", w.grad_hidden);
  io("grad_weight", w.grad_weight);
  io("fp32_grads", w.fp32_grads);
}

void Fields(FieldVisitor& io, OwnedProblem& p) {
  io("ignore_index", p.ignore_index);
  io("reduction", p.reduction, kReductionNames);
  io("layout", p.layout);
  io("wanted", p.wanted);
}

int64_t ValueCount(const OwnedProblem& problem) {
  int64_t count = 0;
  ForEachTensor(problem, [&](std::string_view, const HostTensor* tensor) {
    count += tensor != nullptr ? tensor->size() : 0;
  });
  return count;
}

kernel::Problem DenseView(const OwnedProblem& problem) {
  kernel::Problem view;
  view.hidden = problem.hidden.View();
  view.weight = problem.weight.View();
  view.labels = problem.labels.View();
  if (problem.temperature) view.temperature = problem.temperature->View();
  view.ignore_index = problem.ignore_index;
  view.reduction = problem.reduction;
  if (problem.grad_logprob) view.grad_logprob = problem.grad_logprob->View();
  if (problem.grad_entropy) view.grad_entropy = problem.grad_entropy->View();
  Broadcast(problem.layout, &view);
  return view;
}

std::optional<std::string> Inconsistency(const OwnedProblem& problem) {
  if (auto error = Malformed("hidden", problem.hidden, 2)) return error;
  if (!kernel::IsFloat(problem.hidden.dtype)) {
    return WrongDType("hidden", problem.hidden.dtype, "bf16, fp16 or fp32");
  }
  if (auto error = Malformed("weight", problem.weight, 2)) return error;
  if (problem.weight.dtype != problem.hidden.dtype) {
    return WrongDType("weight", problem.weight.dtype,
                      std::string(kernel::Name(problem.hidden.dtype)) + " as hidden is");
  }
  if (problem.weight.shape[1] != problem.hidden.shape[1]) {
    return "weight: shape " + ShapeText(problem.weight.shape) + ", hidden has shape " +
           ShapeText(problem.hidden.shape);
  }
  if (auto error = Malformed("labels", problem.labels, 1)) return error;
  if (problem.labels.dtype != DType::kI32 && problem.labels.dtype != DType::kI64) {
    return WrongDType("labels", problem.labels.dtype, "int32 or int64");
  }
  const int64_t rows = problem.rows();
  if (problem.labels.shape[0] != rows) {
    return "labels: shape " + ShapeText(problem.labels.shape) + ", hidden has " + std::to_string(rows) +
           " rows";
  }
  const size_t t_rank = problem.temperature && problem.temperature->shape.empty() ? 0 : 1;
  if (auto error = BadPerRow("temperature", problem.temperature, t_rank, rows)) return error;
  const size_t g_rank = problem.reduction == Reduction::kNone ? 1 : 0;
  if (auto error = BadPerRow("grad_logprob", problem.grad_logprob, g_rank, rows)) return error;
  if (auto error = BadPerRow("grad_entropy", problem.grad_entropy, 1, rows)) return error;
  return BadLayout(problem.layout);
}

HostTensor GatherRows(const kernel::ConstTensor& from, const std::vector<int64_t>& rows) {
  std::vector<int64_t> shape = {static_cast<int64_t>(rows.size())};
  if (from.rank > 1) shape.push_back(from.shape[1]);
  HostTensor to = HostTensor::Zeros(from.dtype, std::move(shape));
  const int64_t stride = from.rank > 0 ? from.stride[0] : 0;
  const size_t element = kernel::SizeOf(from.dtype);
  const size_t row_bytes = element * static_cast<size_t>(from.rank > 1 ? from.shape[1] : 1);
  for (size_t i = 0; i < rows.size() && row_bytes > 0; ++i) {
    std::memcpy(
        to.bytes.data() + i * row_bytes,
        static_cast<const std::byte*>(from.data) + static_cast<size_t>(rows[i] * stride) * element,
        row_bytes);
  }
  return to;
}

OwnedProblem SelectRows(const OwnedProblem& problem, const std::vector<int64_t>& rows) {
  const kernel::Problem from = DenseView(problem);
  OwnedProblem selected = problem;
  selected.hidden = GatherRows(from.hidden, rows);
  selected.labels = GatherRows(from.labels, rows);
  const auto gather = [&](const std::optional<kernel::ConstTensor>& tensor, auto* to) {
    if (tensor && tensor->rank > 0) *to = GatherRows(*tensor, rows);
  };
  gather(from.temperature, &selected.temperature);
  gather(from.grad_logprob, &selected.grad_logprob);
  gather(from.grad_entropy, &selected.grad_entropy);
  return selected;
}

}  // namespace plumbline::fuzz
