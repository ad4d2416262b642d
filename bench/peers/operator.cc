// SPDX-License-Identifier: Apache-2.0
//
// The CUDA operator behind a C interface, for `python3 bench/peers`: bf16, contiguous, int64 labels, T
// = 1, on whichever stream the caller names. Each function returns 0, or 1 + kernel::Code with the
// reason in `message` (cut to `room` bytes, ended with 0).

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel/linear_cross_entropy.h"

namespace {

namespace kernel = plumbline::kernel;
using kernel::DType;

// Has the layout of the CallLayout in bench/peers/operator_call.py.
struct Call {
  int64_t n, h, v;
  int64_t gradients;  // 1: both are asked for; 0: none
  int64_t mean;  // 1: reduction mean; logprob is the loss and grad_logprob its gradient, of one element
  int64_t saved_logits;  // 1: forward saves all logits for backward; 0: none
  const void* hidden;
  const void* weight;
  const void* labels;
  const void* grad_logprob;
  const void* grad_entropy;
  void* logprob;
  void* entropy;
  void* grad_hidden;
  void* grad_weight;
  void* workspace;
  void* saved;
  void* stream;
  int64_t fp32_logits;  // 1: what is kept, and backward's exponents, are logits in fp32; 0: the default
  int64_t saved_survives;  // 1: saved logits serve any number of backward passes; 0: one
};

struct Asked {
  kernel::Problem problem;
  kernel::Results results;
  kernel::Execution execution;
};

Asked Of(const Call& call) {
  Asked asked;
  const int64_t n = call.n, h = call.h, v = call.v;
  asked.problem.hidden = {call.hidden, DType::kBf16, 2, {n, h}, {h, 1}};
  asked.problem.weight = {call.weight, DType::kBf16, 2, {v, h}, {h, 1}};
  asked.problem.labels = {call.labels, DType::kI64, 1, {n, 1}, {1, 1}};
  const int rank = call.mean != 0 ? 0 : 1;
  const int64_t one_or_n = rank == 0 ? 1 : n;
  const kernel::Tensor of_rows = {call.logprob, DType::kF32, rank, {one_or_n, 1}, {1, 1}};
  asked.problem.grad_logprob =
      kernel::ConstTensor{call.grad_logprob, DType::kF32, rank, {one_or_n, 1}, {1, 1}};
  if (call.mean != 0) {
    asked.problem.reduction = kernel::Reduction::kMean;
    asked.results.loss = of_rows;
  } else {
    asked.problem.grad_entropy = kernel::ConstTensor{call.grad_entropy, DType::kF32, 1, {n, 1}, {1, 1}};
    asked.results.logprob = of_rows;
    asked.results.entropy = kernel::Tensor{call.entropy, DType::kF32, 1, {n, 1}, {1, 1}};
  }
  if (call.gradients != 0) {
    asked.results.grad_hidden = kernel::Tensor{call.grad_hidden, DType::kBf16, 2, {n, h}, {h, 1}};
    asked.results.grad_weight = kernel::Tensor{call.grad_weight, DType::kBf16, 2, {v, h}, {h, 1}};
  }
  asked.execution.device = kernel::Device::kCuda;
  asked.execution.stream = call.stream;
  asked.execution.saved_logits_bytes = call.saved_logits != 0 ? ~size_t{0} : 0;
  asked.execution.saved_is_consumed = call.saved_logits != 0 && call.saved_survives == 0;
  if (call.fp32_logits != 0) asked.execution.kept_form = kernel::KeptForm::kLogits;
  return asked;
}

int Answer(const kernel::Status& status, char* message, size_t room) {
  if (status.ok()) return 0;
  if (room > 0) {
    std::strncpy(message, status.message.c_str(), room - 1);
    message[room - 1] = 0;
  }
  return 1 + static_cast<int>(status.code);
}

}  // namespace

extern "C" {

int plumbline_sizes(const Call* call, size_t* workspace, size_t* saved, char* message, size_t room) {
  const Asked asked = Of(*call);
  kernel::Sizes sizes;
  const kernel::Status status = kernel::GetSizes(asked.problem, asked.results, asked.execution, &sizes);
  *workspace = sizes.workspace;
  *saved = sizes.saved;
  return Answer(status, message, room);
}

int plumbline_forward(const Call* call, char* message, size_t room) {
  const Asked asked = Of(*call);
  return Answer(
      kernel::Forward(asked.problem, asked.results, asked.execution, call->workspace, call->saved),
      message, room);
}

int plumbline_backward(const Call* call, char* message, size_t room) {
  const Asked asked = Of(*call);
  return Answer(
      kernel::Backward(asked.problem, asked.results, asked.execution, call->workspace, call->saved),
      message, room);
}

// Gradients in forward: the size that one call for both passes needs, and the call.
int plumbline_at_once_size(const Call* call, size_t* workspace, char* message, size_t room) {
  const Asked asked = Of(*call);
  return Answer(
      kernel::GetForwardBackwardSize(asked.problem, asked.results, asked.execution, workspace), message,
      room);
}

int plumbline_at_once(const Call* call, char* message, size_t room) {
  const Asked asked = Of(*call);
  return Answer(
      kernel::ForwardBackward(asked.problem, asked.results, asked.execution, {}, call->workspace),
      message, room);
}

}  // extern "C"
