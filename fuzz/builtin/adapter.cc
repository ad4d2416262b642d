// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/adapter.h"

#include <cstdio>

namespace plumbline::fuzz {
int Report(const kernel::Status& status, bool told, char* error, size_t error_capacity) {
  if (!status.ok() && error != nullptr && error_capacity > 0) {
    std::snprintf(error, error_capacity, "%s", status.message.c_str());
  }
  switch (status.code) {
    case kernel::Code::kOk:
      return PLUMBLINE_OK;
    case kernel::Code::kInvalidData:
      return told ? PLUMBLINE_OK : PLUMBLINE_INVALID;
    case kernel::Code::kInvalidArgument:
      return PLUMBLINE_INVALID;
    case kernel::Code::kUnsupported:
      return PLUMBLINE_UNSUPPORTED;
    case kernel::Code::kFailed:
      break;
  }
  return PLUMBLINE_FAILED;
}

kernel::Results EveryResult(const kernel::Problem& problem, bool fp32_grads) {
  using kernel::DType;
  // The address of all results. It is neither read nor written, since sizes are computed on the host.
  // It must only not look absent or misaligned.
  alignas(64) static char nowhere[64];
  const auto vector = [&](int64_t n) {
    return kernel::Tensor{nowhere, DType::kF32, 1, {n, 1}, {1, 1}};
  };
  const auto matrix = [&](const kernel::ConstTensor& like) {
    return kernel::Tensor{nowhere,
                          fp32_grads ? DType::kF32 : like.dtype,
                          2,
                          {like.shape[0], like.shape[1]},
                          {like.shape[1], 1}};
  };
  const int64_t n = problem.rows();
  kernel::Results results;
  if (problem.reduction == kernel::Reduction::kNone) {
    results.logprob = vector(n);
  } else {
    results.loss = kernel::Tensor{nowhere, DType::kF32, 0, {1, 1}, {1, 1}};
  }
  results.entropy = vector(n);
  results.lse = vector(n);
  results.grad_hidden = matrix(problem.hidden);
  results.grad_weight = matrix(problem.weight);
  results.first_invalid_row = kernel::Tensor{nowhere, DType::kI64, 0, {1, 1}, {1, 1}};
  return results;
}

}  // namespace plumbline::fuzz
