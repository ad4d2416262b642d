// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/production/device_case.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor, kernel::DType, kernel::Tensor;
using oracle::cuda::Check;
using Lines = DeviceRegion::Lines;

// Copies `count` lines of `bytes` each, whose starts lie `from_pitch` and `to_pitch` bytes apart.
void CopyLines(const void* from, size_t from_pitch, void* to, size_t to_pitch, size_t bytes,
               int64_t count, cudaMemcpyKind kind, const char* what) {
  if (bytes == 0 || count == 0) return;
  Check(cudaMemcpy2D(to, std::max(to_pitch, bytes), from, std::max(from_pitch, bytes), bytes,
                     static_cast<size_t>(count), kind),
        what);
}

// Returns a dense matrix of elements of `width` bytes, rows and columns exchanged.
std::vector<std::byte> Transposed(const std::vector<std::byte>& from, int64_t rows, int64_t columns,
                                  size_t width) {
  std::vector<std::byte> to(from.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      std::memcpy(to.data() + static_cast<size_t>(j * rows + i) * width,
                  from.data() + static_cast<size_t>(i * columns + j) * width, width);
    }
  }
  return to;
}

Lines MatrixLines(int64_t rows, int64_t columns, bool column_major, int64_t pad, int64_t offset) {
  const int64_t lines = column_major ? columns : rows, length = column_major ? rows : columns;
  return {lines, length, length + pad, offset};
}

template <class View>
void SetMatrix(View* view, DType dtype, int64_t rows, int64_t columns, bool column_major,
               const Lines& lines, const DeviceRegion& region) {
  view->data = region.data();
  view->dtype = dtype;
  view->rank = 2;
  view->shape[0] = rows;
  view->shape[1] = columns;
  view->stride[column_major ? 1 : 0] = lines.pitch;
  view->stride[column_major ? 0 : 1] = 1;
}

// A matrix in device memory is a const one for targets; expansion fills it.
void* Filled(const ConstTensor& tensor) { return const_cast<void*>(tensor.data); }

void CopyMatrix(const HostTensor& from, const ConstTensor& to) {
  const size_t width = kernel::SizeOf(from.dtype);
  const int64_t rows = to.shape[0], columns = to.shape[1];
  const bool column_major = to.stride[1] != 1 && to.stride[0] == 1;
  const std::vector<std::byte> lines =
      column_major ? Transposed(from.bytes, rows, columns, width) : from.bytes;
  const size_t line = static_cast<size_t>(column_major ? rows : columns) * width;
  CopyLines(lines.data(), line, Filled(to),
            static_cast<size_t>(to.stride[column_major ? 1 : 0]) * width, line,
            column_major ? columns : rows, cudaMemcpyHostToDevice, "copying a matrix to the device");
}

}  // namespace

DeviceRegion::DeviceRegion(const Lines& lines, size_t width, const char* what)
    : lines_(lines), width_(static_cast<int64_t>(width)) {
  const int64_t elements =
      lines.first + (lines.lines > 0 ? (lines.lines - 1) * lines.pitch + lines.length : 0);
  bytes_ = 2 * kGuard + elements * width_;
  base_ = static_cast<unsigned char*>(memory_.Get(static_cast<size_t>(bytes_), what));
  Poison(0xff);
}

void DeviceRegion::Poison(unsigned char pattern) {
  pattern_ = pattern;
  Check(cudaMemset(base_, pattern, static_cast<size_t>(bytes_)), "filling memory");
  // A target's stream does not wait for this one.
  Check(cudaDeviceSynchronize(), "filling memory");
}

std::string DeviceRegion::Damage() {
  auto* const found = found_.Of<unsigned long long>(2, "what is damaged");
  oracle::cuda::Upload<unsigned long long>({0, ~0ULL}, found);
  const int64_t first = kGuard + lines_.first * width_;
  CountDamage(base_, bytes_, pattern_, first, lines_.lines, lines_.length * width_,
              std::max<int64_t>(lines_.pitch, 1) * width_, found, found + 1);
  const std::vector<unsigned long long> result =
      oracle::cuda::Download(found, 2, "looking at guard bands");
  if (result[0] == 0) return {};
  return std::to_string(result[0]) + " bytes that are no element's were written, the first " +
         std::to_string(static_cast<int64_t>(result[1]) - first) + " bytes from element 0";
}

DeviceCase::DeviceCase(const Recipe& r) {
  if (const std::string why = WhyNotOnDevice(r); !why.empty()) throw std::runtime_error(why);
  rows_.hidden = {r.dtype, {r.n, r.h}, {}};
  rows_.weight = {r.dtype, {r.v, r.h}, {}};
  std::vector<bool> poisoned;
  ExpandRows(
      r, [&] { return LeadingLabels(r); }, &rows_, &poisoned);
  Place();
  const ConstTensor &hidden = problem_.hidden, &weight = problem_.weight;
  FillHidden(r, Filled(hidden), hidden.stride[0], hidden.stride[1]);
  FillWeight(r, Filled(weight), weight.stride[0], weight.stride[1]);
  for (int64_t i = 0; i < r.n; ++i) {
    if (!poisoned[static_cast<size_t>(i)]) continue;
    HostTensor row = ReadRows(hidden, i, 1);
    PoisonRow(r, i, &row, 0);
    ConstTensor to = hidden;
    to.shape[0] = 1;
    to.data = static_cast<const std::byte*>(hidden.data) +
              static_cast<size_t>(i * hidden.stride[0]) * kernel::SizeOf(r.dtype);
    CopyMatrix(row, to);
  }
  Check(cudaDeviceSynchronize(), "making the inputs");
}

DeviceCase::DeviceCase(const OwnedProblem& problem) : rows_(problem) {
  if (problem.layout.reversed || problem.layout.hidden_broadcast) {
    throw std::runtime_error("reversed and broadcast rows have no form on a device");
  }
  if (problem.layout.gradient_step != 1 || problem.layout.single_stride != 1) {
    throw std::runtime_error("gradient_step and single_stride have no form on a device");
  }
  rows_.hidden.bytes.clear();
  rows_.weight.bytes.clear();
  Place();
  CopyMatrix(problem.hidden, problem_.hidden);
  CopyMatrix(problem.weight, problem_.weight);
}

void DeviceCase::LeaveOut(const Capabilities& can) {
  rows_.wanted = WithoutWhatItLacks(can, rows_).wanted;
}

void DeviceCase::Place() {
  const Layout& layout = rows_.layout;
  const auto matrix = [&](ConstTensor* to, const HostTensor& from, int64_t pad, bool column_major,
                          const char* what) {
    const int64_t rows = from.shape[0], columns = from.shape[1];
    const Lines lines = MatrixLines(rows, columns, column_major, pad, layout.offset);
    regions_.emplace_back(lines, kernel::SizeOf(from.dtype), what);
    SetMatrix(to, from.dtype, rows, columns, column_major, lines, regions_.back());
  };
  matrix(&problem_.hidden, rows_.hidden, layout.hidden_padding, false, "hidden");
  matrix(&problem_.weight, rows_.weight, layout.weight_padding, layout.weight_hidden_major, "weight");
  problem_.ignore_index = rows_.ignore_index;
  problem_.reduction = rows_.reduction;
  problem_.labels = Vector(rows_.labels, layout.label_offset, layout.label_stride);
  if (rows_.temperature)
    problem_.temperature = Vector(*rows_.temperature, layout.offset, layout.temperature_stride);
  if (rows_.grad_logprob) {
    problem_.grad_logprob = Vector(*rows_.grad_logprob, layout.offset, layout.grad_stride);
  }
  if (rows_.grad_entropy) {
    problem_.grad_entropy = Vector(*rows_.grad_entropy, layout.offset, layout.grad_stride);
  }
}

// Element i is at `stride` * i; with stride 0, element 0 stands alone.
ConstTensor DeviceCase::Vector(const HostTensor& from, int64_t offset, int64_t stride) {
  const int64_t size = from.size(), count = stride == 0 ? std::min<int64_t>(size, 1) : size;
  const size_t width = kernel::SizeOf(from.dtype);
  const int64_t step = from.shape.empty() ? 1 : std::max<int64_t>(stride, 1);
  const DeviceRegion& region = regions_.emplace_back(Lines{count, 1, step, offset}, width, "a vector");
  CopyLines(from.bytes.data(), width, region.data(), static_cast<size_t>(step) * width, width, count,
            cudaMemcpyHostToDevice, "copying a vector to the device");
  ConstTensor view = from.View();
  view.data = region.data();
  view.stride[0] = stride;
  return view;
}

HostTensor DeviceCase::ReadRows(const ConstTensor& t, int64_t first, int64_t count) {
  HostTensor rows = HostTensor::Zeros(t.dtype, {count, t.shape[1]});
  const size_t width = kernel::SizeOf(t.dtype);
  const bool column_major = t.stride[1] != 1;  // each row is strided in memory
  const auto* const from =
      static_cast<const std::byte*>(t.data) + static_cast<size_t>(first * t.stride[0]) * width;
  const int64_t lines = column_major ? t.shape[1] : count;
  const size_t line = static_cast<size_t>(column_major ? count : t.shape[1]) * width;
  CopyLines(from, static_cast<size_t>(t.stride[column_major ? 1 : 0]) * width, rows.bytes.data(), line,
            line, lines, cudaMemcpyDeviceToHost, "reading rows");
  if (column_major) rows.bytes = Transposed(rows.bytes, t.shape[1], count, width);
  return rows;
}

DeviceOutputs::DeviceOutputs(const DeviceCase& of) {
  const OwnedProblem& rows = of.rows();
  const Wanted& wanted = rows.wanted;
  const Layout& layout = rows.layout;
  const int64_t n = rows.rows(), v = rows.vocab(), h = rows.hidden_size();
  const auto vector = [&](std::optional<Tensor>* to, const char* name, int64_t count, int rank,
                          DType dtype) {
    const int64_t stride = rank == 0 ? 1 : layout.output_stride;
    const int64_t first = dtype == DType::kF32 ? layout.offset : 0;
    const Lines lines = stride == 1 ? Lines{1, count, count, first} : Lines{count, 1, stride, first};
    const DeviceRegion& region = Add(name, lines, dtype);
    *to = Tensor{region.data(), dtype, rank, {count, 1}, {stride, 1}};
  };
  if (rows.reduction != kernel::Reduction::kNone) {
    vector(&results_.loss, "loss", 1, 0, DType::kF32);
  } else {
    vector(&results_.logprob, "logprob", n, 1, DType::kF32);
  }
  if (wanted.entropy) vector(&results_.entropy, "entropy", n, 1, DType::kF32);
  if (wanted.lse) vector(&results_.lse, "lse", n, 1, DType::kF32);
  if (wanted.first_invalid_row) {
    vector(&results_.first_invalid_row, "first_invalid_row", 1, 0, DType::kI64);
  }
  const DType dtype = wanted.fp32_grads ? DType::kF32 : rows.hidden.dtype;
  const auto matrix = [&](std::optional<Tensor>* to, const char* name, int64_t count, int64_t pad,
                          bool column_major) {
    const Lines lines = MatrixLines(count, h, column_major, pad, layout.offset);
    SetMatrix(&to->emplace(), dtype, count, h, column_major, lines, Add(name, lines, dtype));
  };
  if (wanted.grad_hidden) {
    matrix(&results_.grad_hidden, "grad_hidden", n, layout.hidden_padding, false);
  }
  if (wanted.grad_weight) {
    matrix(&results_.grad_weight, "grad_weight", v, layout.weight_padding, layout.weight_hidden_major);
  }
}

DeviceRegion& DeviceOutputs::Add(const char* name, const Lines& lines, DType dtype) {
  return regions_
      .emplace_back(std::piecewise_construct, std::forward_as_tuple(name),
                    std::forward_as_tuple(lines, kernel::SizeOf(dtype), name))
      .second;
}

void DeviceOutputs::Poison(unsigned char pattern) {
  for (auto& [name, region] : regions_) region.Poison(pattern);
}

std::string DeviceOutputs::Damage() {
  for (auto& [name, region] : regions_) {
    if (std::string what = region.Damage(); !what.empty()) return std::string(name) + ": " + what;
  }
  return {};
}

std::optional<int64_t> DeviceOutputs::FirstInvalidRow() const {
  if (!results_.first_invalid_row) return std::nullopt;
  return oracle::cuda::Download(static_cast<const int64_t*>(results_.first_invalid_row->data), 1,
                                "reading first_invalid_row")[0];
}

}  // namespace plumbline::fuzz
