// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/operator_run.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "fuzz/base/philox.h"

namespace plumbline::bench {
namespace {

using kernel::DType;

constexpr uint64_t kSeed = 20261122;
constexpr int64_t kIgnored = -100;

void Check(const kernel::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

template <class View, class T>
View Vector(const DeviceArray<T>& array, DType dtype) {
  return {array.data(), dtype, 1, {array.size(), 1}, {1, 1}};
}
template <class View>
View Matrix(const DeviceArray<Bf16>& array, int64_t rows, int64_t columns) {
  return {array.data(), DType::kBf16, 2, {rows, columns}, {columns, 1}};
}

std::vector<int64_t> Labels(const DeviceShape& shape) {
  std::vector<int64_t> labels(static_cast<size_t>(shape.n));
  const fuzz::Stream stream(kSeed, 1);
  for (int64_t i = 0; i < shape.n; ++i) {
    const fuzz::PhiloxBlock bits = stream.At(i);
    const bool ignored = shape.half_ignored && bits[2] % 2 == 0;
    const uint64_t wide = uint64_t{bits[0]} << 32 | bits[1];
    labels[static_cast<size_t>(i)] =
        ignored ? kIgnored : static_cast<int64_t>(wide % static_cast<uint64_t>(shape.v));
  }
  return labels;
}

}  // namespace

std::string DeviceShape::name() const {
  return std::to_string(n) + "x" + std::to_string(h) + "x" + std::to_string(v) +
         (half_ignored ? "_half_ignored" : "");
}

OperatorRun::OperatorRun(const DeviceShape& shape, cudaStream_t stream)
    : shape_(shape),
      stream_(stream),
      hidden_(shape.n * shape.h),
      weight_(shape.v * shape.h),
      labels_(shape.n),
      grad_logprob_(shape.n),
      grad_entropy_(shape.n),
      logprob_(shape.n),
      entropy_(shape.n),
      grad_hidden_(shape.n * shape.h),
      grad_weight_(shape.v * shape.h) {
  execution_.device = kernel::Device::kCuda;
  execution_.stream = stream;
  const auto spread = static_cast<float>(2 / std::sqrt(static_cast<double>(shape.h)));
  FillNormal(hidden_.data(), hidden_.size(), 1, kSeed, stream);
  FillNormal(weight_.data(), weight_.size(), spread, kSeed + 1, stream);
  FillNormal(grad_logprob_.data(), shape.n, 1, kSeed + 2, stream);
  FillNormal(grad_entropy_.data(), shape.n, 1, kSeed + 3, stream);
  const std::vector<int64_t> labels = Labels(shape);
  labels_.Put(labels);
  for (int64_t i = 0; i < shape.n; ++i) {
    if (labels[static_cast<size_t>(i)] != kIgnored) live_rows_.push_back(i);
  }

  problem_.hidden = Matrix<kernel::ConstTensor>(hidden_, shape.n, shape.h);
  problem_.weight = Matrix<kernel::ConstTensor>(weight_, shape.v, shape.h);
  problem_.labels = Vector<kernel::ConstTensor>(labels_, DType::kI64);
  problem_.ignore_index = kIgnored;
  problem_.grad_logprob = Vector<kernel::ConstTensor>(grad_logprob_, DType::kF32);
  problem_.grad_entropy = Vector<kernel::ConstTensor>(grad_entropy_, DType::kF32);
  results_.logprob = Vector<kernel::Tensor>(logprob_, DType::kF32);
  results_.entropy = Vector<kernel::Tensor>(entropy_, DType::kF32);
  Check(kernel::GetSizes(problem_, results_, execution_, &forward_sizes_));
  results_.grad_hidden = Matrix<kernel::Tensor>(grad_hidden_, shape.n, shape.h);
  results_.grad_weight = Matrix<kernel::Tensor>(grad_weight_, shape.v, shape.h);
  AskSizes();
  Check(kernel::GetForwardBackwardSize(problem_, results_, execution_, &forward_backward_workspace_));
  workspace_ = DeviceArray<std::byte>(static_cast<int64_t>(sizes_.workspace));
  saved_ = DeviceArray<std::byte>(static_cast<int64_t>(sizes_.saved));
}

void OperatorRun::AskSizes() { Check(kernel::GetSizes(problem_, results_, execution_, &sizes_)); }

void OperatorRun::Forward() {
  Check(kernel::Forward(problem_, results_, execution_, workspace_.data(), saved_.data()));
}

void OperatorRun::Backward() {
  Check(kernel::Backward(problem_, results_, execution_, workspace_.data(), saved_.data()));
}

void OperatorRun::PoisonOutputs() {
  const auto poison = [&](const auto& array) {
    const size_t bytes = static_cast<size_t>(array.size()) * sizeof *array.data();
    bench::Check(cudaMemsetAsync(array.data(), 0xff, bytes, stream_), "cudaMemsetAsync");
  };
  poison(logprob_);
  poison(entropy_);
  poison(grad_hidden_);
  poison(grad_weight_);
}

void OperatorRun::CheckForward() const {
  bench::Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  const auto check = [](const char* name, const std::vector<float>& values) {
    const auto at = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
    if (at != values.end())
      throw std::runtime_error(std::string(name) + " of row " + std::to_string(at - values.begin()) +
                               ": " + std::to_string(*at));
  };
  check("logprob", logprob_.Get());
  check("entropy", entropy_.Get());
}

void OperatorRun::CheckGradients() const {
  const auto check = [&](const char* name, const DeviceArray<Bf16>& array) {
    const double sum = SumOfSquares(array, stream_);
    if (!(sum > 0 && std::isfinite(sum)))
      throw std::runtime_error(std::string(name) + ": the sum of its squares is " +
                               std::to_string(sum));
  };
  check("grad_hidden", grad_hidden_);
  check("grad_weight", grad_weight_);
}

void OperatorRun::ForwardBackward() {
  if (at_once_.data() == nullptr)
    at_once_ = DeviceArray<std::byte>(static_cast<int64_t>(forward_backward_workspace_));
  Check(kernel::ForwardBackward(problem_, results_, execution_, {}, at_once_.data()));
}

double SumOfSquares(const DeviceArray<Bf16>& array, cudaStream_t stream) {
  DeviceArray<double> sum(1);
  sum.Put({0});
  AddSquares(array.data(), array.size(), sum.data(), stream);
  bench::Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return sum.Get()[0];
}

}  // namespace plumbline::bench
