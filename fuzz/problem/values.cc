// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/values.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace plumbline::fuzz {

int SignificantBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23) & 0xff;
  const uint32_t significand = (bits & 0x007f'ffff) | (exponent != 0 ? 0x0080'0000 : 0);
  if (significand == 0) return 0;
  return static_cast<int>(std::bit_width(significand)) - std::countr_zero(significand);
}

std::vector<double> Logits(const OwnedProblem& problem, int64_t row) {
  std::vector<double> logits(static_cast<size_t>(problem.vocab()));
  const int64_t width = problem.hidden_size();
  for (int64_t v = 0; v < problem.vocab() && row < problem.rows(); ++v) {
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) {
      sum += static_cast<double>(problem.hidden.GetFloat(row * width + d)) *
             static_cast<double>(problem.weight.GetFloat(v * width + d));
    }
    logits[static_cast<size_t>(v)] = sum;
  }
  return logits;
}

std::vector<int64_t> Iota(int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

HostTensor LabelsAs(kernel::DType dtype, const HostTensor& labels) {
  HostTensor other = HostTensor::Zeros(dtype, labels.shape);
  for (int64_t i = 0; i < labels.size(); ++i) other.SetInt(i, labels.GetInt(i));
  return other;
}

kernel::ConstTensor DenseTensor(kernel::DType dtype, std::span<const int64_t> shape, const void* data) {
  kernel::ConstTensor view{.data = data, .dtype = dtype, .rank = static_cast<int>(shape.size())};
  std::copy(shape.begin(), shape.end(), view.shape);
  // A row without elements has a stride of 1: 0 would be a broadcast.
  if (view.rank > 1) view.stride[0] = std::max<int64_t>(shape[1], 1);
  return view;
}

void Broadcast(const Layout& layout, kernel::Problem* view) {
  if (layout.hidden_broadcast) view->hidden.stride[0] = 0;
  if (layout.label_stride == 0) view->labels.stride[0] = 0;
  for (auto* gradient : {&view->grad_logprob, &view->grad_entropy}) {
    if (layout.grad_stride == 0 && *gradient) (*gradient)->stride[0] = 0;
  }
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

}  // namespace plumbline::fuzz
