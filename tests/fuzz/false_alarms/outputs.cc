// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/outputs.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace plumbline::false_alarms {

using kernel::DType, kernel::Tensor;

void Outputs::Free::operator()(void* memory) const { std::free(memory); }

Tensor Outputs::Room(int rank, int64_t rows, int64_t columns, DType dtype, int at) {
  // calloc of much memory is backed by pages as they are written.
  memory_[at].reset(std::calloc(static_cast<size_t>(rows * columns), kernel::SizeOf(dtype)));
  if (!memory_[at]) throw std::bad_alloc();
  return {memory_[at].get(), dtype, rank, {rows, columns}, {columns, 1}};
}

Outputs::Outputs(const kernel::Problem& problem, DType gradients) {
  const int64_t n = problem.rows(), h = problem.hidden_size();
  results_.logprob = Room(1, n, 1, DType::kF32, 0);
  results_.entropy = Room(1, n, 1, DType::kF32, 1);
  results_.lse = Room(1, n, 1, DType::kF32, 2);
  results_.grad_hidden = Room(2, n, h, gradients, 3);
  results_.grad_weight = Room(2, problem.vocab(), h, gradients, 4);
}

kernel::Results Outputs::Without(bool grad_hidden, bool grad_weight) const {
  kernel::Results results = results_;
  if (grad_hidden) results.grad_hidden.reset();
  if (grad_weight) results.grad_weight.reset();
  return results;
}

void Write(const Tensor& tensor, int64_t i, int64_t j, float value) {
  const int64_t at = i * tensor.stride[0] + (tensor.rank > 1 ? j * tensor.stride[1] : 0);
  auto* const to =
      static_cast<std::byte*>(tensor.data) + static_cast<size_t>(at) * kernel::SizeOf(tensor.dtype);
  if (tensor.dtype == DType::kF32) {
    std::memcpy(to, &value, sizeof value);
  } else if (tensor.dtype == DType::kBf16) {
    const kernel::BFloat16 narrow = kernel::ToBFloat16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const kernel::Float16 narrow = kernel::ToFloat16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

}  // namespace plumbline::false_alarms
