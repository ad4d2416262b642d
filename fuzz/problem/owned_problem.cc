// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/owned_problem.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

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

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
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

// Refuses anything but an fp32 tensor that is a scalar or has one element a row.
std::optional<std::string> BadPerRow(std::string_view name, const HostTensor& tensor, size_t rank,
                                     int64_t rows) {
  if (auto error = Malformed(name, tensor, rank)) return error;
  if (tensor.dtype != DType::kF32) return WrongDType(name, tensor.dtype, "fp32");
  if (rank == 1 && tensor.shape[0] != rows) {
    return std::string(name) + ": shape " + ShapeText(tensor.shape) + ", hidden has " +
           std::to_string(rows) + " rows";
  }
  return std::nullopt;
}

std::optional<std::string> OutOfRange(std::string_view name, int64_t value, int64_t high) {
  if (value >= 0 && value <= high) return std::nullopt;
  return "layout: " + std::string(name) + " " + std::to_string(value) + ", must be 0 to " +
         std::to_string(high);
}

std::optional<std::string> BadLayout(const Layout& layout) {
  const std::pair<std::string_view, int64_t> strides[] = {{"hidden_padding", layout.hidden_padding},
                                                          {"weight_padding", layout.weight_padding},
                                                          {"grad_stride", layout.grad_stride},
                                                          {"label_stride", layout.label_stride}};
  for (const auto& [name, value] : strides) {
    if (auto error = OutOfRange(name, value, kMaxStride)) return error;
  }
  if (auto error = OutOfRange("label_offset", layout.label_offset, kMaxOffset)) return error;
  return OutOfRange("offset", layout.offset, kMaxOffset);
}

// Copies elements `rows` of a tensor whose first dimension is the row; `broadcast` reads element 0 for
// all.
HostTensor Gather(const HostTensor& from, const std::vector<int64_t>& rows, bool broadcast) {
  std::vector<int64_t> shape = from.shape;
  shape[0] = static_cast<int64_t>(rows.size());
  HostTensor to = HostTensor::Zeros(from.dtype, std::move(shape));
  const int64_t columns = from.shape.size() > 1 ? from.shape[1] : 1;
  const size_t row_bytes = static_cast<size_t>(columns) * kernel::SizeOf(from.dtype);
  if (row_bytes == 0) return to;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto source = broadcast ? size_t{0} : static_cast<size_t>(rows[i]);
    std::memcpy(to.bytes.data() + i * row_bytes, from.bytes.data() + source * row_bytes, row_bytes);
  }
  return to;
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
  switch (dtype) {
    case DType::kBf16:
      return kernel::ToFloat(Load<BFloat16>(*this, i));
    case DType::kF16:
      return kernel::ToFloat(Load<Float16>(*this, i));
    case DType::kF32:
      return Load<float>(*this, i);
    case DType::kI32:
    case DType::kI64:
      break;
  }
  std::abort();  // the caller passed a wrong type: no return value would be right
}

void HostTensor::SetFloat(int64_t i, float value) {
  switch (dtype) {
    case DType::kBf16:
      return Store(*this, i, kernel::ToBFloat16(value));
    case DType::kF16:
      return Store(*this, i, kernel::ToFloat16(value));
    case DType::kF32:
      return Store(*this, i, value);
    case DType::kI32:
    case DType::kI64:
      break;
  }
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
  switch (kernel::SizeOf(dtype)) {
    case 2:
      return Load<uint16_t>(*this, i);
    case 4:
      return Load<uint32_t>(*this, i);
    default:
      return Load<uint64_t>(*this, i);
  }
}

void HostTensor::SetBits(int64_t i, uint64_t bits) {
  switch (kernel::SizeOf(dtype)) {
    case 2:
      return Store(*this, i, static_cast<uint16_t>(bits));
    case 4:
      return Store(*this, i, static_cast<uint32_t>(bits));
    default:
      return Store(*this, i, bits);
  }
}

kernel::ConstTensor HostTensor::View() const {
  kernel::ConstTensor view;
  view.data = bytes.data();
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  if (view.rank > 0) view.shape[0] = shape[0];
  if (view.rank > 1) {
    view.shape[1] = shape[1];
    view.stride[0] = shape[1];
  }
  return view;
}

int64_t ValueCount(const OwnedProblem& problem) {
  int64_t count = problem.hidden.size() + problem.weight.size() + problem.labels.size();
  for (const auto* tensor : {&problem.temperature, &problem.grad_logprob, &problem.grad_entropy}) {
    if (tensor->has_value()) count += (*tensor)->size();
  }
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
  if (problem.layout.hidden_broadcast) view.hidden.stride[0] = 0;
  if (problem.layout.label_stride == 0) view.labels.stride[0] = 0;
  if (problem.layout.grad_stride == 0) {
    if (view.grad_logprob && view.grad_logprob->rank == 1) view.grad_logprob->stride[0] = 0;
    if (view.grad_entropy) view.grad_entropy->stride[0] = 0;
  }
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
  if (problem.temperature) {
    const size_t rank = problem.temperature->shape.empty() ? 0 : 1;
    if (auto error = BadPerRow("temperature", *problem.temperature, rank, rows)) return error;
  }
  if (problem.grad_logprob) {
    const size_t rank = problem.reduction == Reduction::kNone ? 1 : 0;
    if (auto error = BadPerRow("grad_logprob", *problem.grad_logprob, rank, rows)) return error;
  }
  if (problem.grad_entropy) {
    if (auto error = BadPerRow("grad_entropy", *problem.grad_entropy, 1, rows)) return error;
  }
  return BadLayout(problem.layout);
}

OwnedProblem SelectRows(const OwnedProblem& problem, const std::vector<int64_t>& rows) {
  OwnedProblem selected = problem;
  selected.hidden = Gather(problem.hidden, rows, problem.layout.hidden_broadcast);
  selected.labels = Gather(problem.labels, rows, problem.layout.label_stride == 0);
  if (problem.temperature && problem.temperature->shape.size() == 1) {
    selected.temperature = Gather(*problem.temperature, rows, false);
  }
  // A broadcast gradient has the value of element 0 in every row, whatever the others hold.
  const bool broadcast = problem.layout.grad_stride == 0;
  if (problem.grad_logprob && problem.grad_logprob->shape.size() == 1) {
    selected.grad_logprob = Gather(*problem.grad_logprob, rows, broadcast);
  }
  if (problem.grad_entropy) selected.grad_entropy = Gather(*problem.grad_entropy, rows, broadcast);
  return selected;
}

}  // namespace plumbline::fuzz
