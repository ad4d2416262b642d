// SPDX-License-Identifier: Apache-2.0

#include "bench/host/random_problem.h"

#include <cstring>

#include "fuzz/base/philox.h"
#include "kernel/dtype.h"

namespace plumbline::bench {
namespace {

using kernel::DType;

constexpr uint64_t kSeed = 20261122;
enum Purpose : uint32_t { kHidden = 1, kWeight };  // each has its own stream: no row repeats another

// Returns values between -scale and scale in the tensor's own type, from a counter.
std::vector<std::byte> RandomTensor(DType dtype, int64_t count, float scale, Purpose purpose) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * kernel::SizeOf(dtype));
  const fuzz::Stream stream(kSeed, purpose);
  fuzz::PhiloxBlock four;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (i % 4 == 0) four = stream.At(static_cast<int64_t>(i / 4));
    const float value = scale * (static_cast<float>(four[i % 4] >> 8) * 0x1p-23f - 1);
    std::byte* const at = bytes.data() + i * kernel::SizeOf(dtype);
    if (dtype == DType::kBf16) {
      const kernel::BFloat16 narrow = kernel::ToBFloat16(value);
      std::memcpy(at, &narrow, sizeof narrow);
    } else if (dtype == DType::kF16) {
      const kernel::Float16 narrow = kernel::ToFloat16(value);
      std::memcpy(at, &narrow, sizeof narrow);
    } else {
      std::memcpy(at, &value, sizeof value);
    }
  }
  return bytes;
}

}  // namespace

RandomProblem::RandomProblem(const Shape& shape, bool backward)
    : hidden_(RandomTensor(shape.dtype, shape.n * shape.h, 1, kHidden)),
      weight_(RandomTensor(shape.dtype, shape.v * shape.h, 0.2f, kWeight)),
      grad_hidden_(backward ? hidden_.size() : 0),
      grad_weight_(backward ? weight_.size() : 0),
      labels_(static_cast<size_t>(shape.n)),
      ones_(labels_.size(), 1),
      logprob_(labels_.size()),
      entropy_(labels_.size()) {
  for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<int64_t>(i * 7919) % shape.v;
  const int64_t weight_stride[2] = {shape.hidden_major ? 1 : shape.h, shape.hidden_major ? shape.v : 1};
  problem_.hidden = {hidden_.data(), shape.dtype, 2, {shape.n, shape.h}, {shape.h, 1}};
  problem_.weight = {
      weight_.data(), shape.dtype, 2, {shape.v, shape.h}, {weight_stride[0], weight_stride[1]}};
  problem_.labels = {labels_.data(), DType::kI64, 1, {shape.n, 1}, {1, 1}};
  problem_.grad_logprob = problem_.grad_entropy =
      kernel::ConstTensor{ones_.data(), DType::kF32, 1, {shape.n, 1}, {1, 1}};
  results_.logprob = kernel::Tensor{logprob_.data(), DType::kF32, 1, {shape.n, 1}, {1, 1}};
  results_.entropy = kernel::Tensor{entropy_.data(), DType::kF32, 1, {shape.n, 1}, {1, 1}};
  if (!backward) return;
  results_.grad_hidden =
      kernel::Tensor{grad_hidden_.data(), shape.dtype, 2, {shape.n, shape.h}, {shape.h, 1}};
  results_.grad_weight = kernel::Tensor{
      grad_weight_.data(), shape.dtype, 2, {shape.v, shape.h}, {weight_stride[0], weight_stride[1]}};
}

}  // namespace plumbline::bench
