// SPDX-License-Identifier: Apache-2.0

#include "bench/host/random_problem.h"

#include "fuzz/base/philox.h"

namespace plumbline::bench {
namespace {

using fuzz::HostTensor;
using kernel::DType;

constexpr uint64_t kSeed = 20261122;
enum Purpose : uint32_t { kHidden = 1, kWeight };  // each has its own stream: no row repeats another

// Returns values between -scale and scale, from a counter.
HostTensor RandomTensor(DType dtype, int64_t rows, int64_t columns, float scale, Purpose purpose) {
  HostTensor tensor = HostTensor::Zeros(dtype, {rows, columns});
  const fuzz::Stream stream(kSeed, purpose);
  fuzz::PhiloxBlock four;
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (i % 4 == 0) four = stream.At(i / 4);
    tensor.SetFloat(i,
                    scale * (static_cast<float>(four[static_cast<size_t>(i % 4)] >> 8) * 0x1p-23f - 1));
  }
  return tensor;
}

}  // namespace

fuzz::OwnedProblem RandomProblem(const Shape& shape, bool backward) {
  fuzz::OwnedProblem problem;
  problem.hidden = RandomTensor(shape.dtype, shape.n, shape.h, 1, kHidden);
  problem.weight = RandomTensor(shape.dtype, shape.v, shape.h, 0.2f, kWeight);
  problem.labels = HostTensor::Zeros(DType::kI64, {shape.n});
  HostTensor ones = HostTensor::Zeros(DType::kF32, {shape.n});
  for (int64_t i = 0; i < shape.n; ++i) {
    problem.labels.SetInt(i, i * 7919 % shape.v);
    ones.SetFloat(i, 1);
  }
  problem.grad_logprob = problem.grad_entropy = ones;
  problem.layout.weight_hidden_major = shape.hidden_major;
  problem.wanted = {.lse = false, .grad_hidden = backward, .grad_weight = backward};
  return problem;
}

}  // namespace plumbline::bench
