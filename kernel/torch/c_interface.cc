// SPDX-License-Identifier: Apache-2.0

#include "kernel/torch/c_interface.h"

#include <exception>
#include <optional>
#include <string>

#include "kernel/linear_cross_entropy.h"

namespace plumbline::kernel {
namespace {

using CTensor = plumbline_operator_tensor;
using CCall = plumbline_operator_call;

thread_local std::string last_message;

int32_t Said(const Status& status) {
  if (!status.ok()) last_message = status.message;
  return static_cast<int32_t>(status.code);
}

std::optional<Tensor> Maybe(const CTensor& t) {
  if (t.rank < 0) return std::nullopt;
  return Tensor{t.data,
                static_cast<DType>(t.dtype),
                t.rank,
                {t.shape[0], t.shape[1]},
                {t.stride[0], t.stride[1]}};
}

std::optional<ConstTensor> MaybeConst(const CTensor& t) {
  const std::optional<Tensor> tensor = Maybe(t);
  return tensor ? std::optional(AsConst(*tensor)) : std::nullopt;
}

struct Call {
  Problem problem;
  Results results;
  Execution execution;
};

Call Read(const CCall& c) {
  Call call;
  Problem& p = call.problem;
  p.hidden = MaybeConst(c.hidden).value_or(ConstTensor());
  p.weight = MaybeConst(c.weight).value_or(ConstTensor());
  p.labels = MaybeConst(c.labels).value_or(ConstTensor());
  p.temperature = MaybeConst(c.temperature);
  p.ignore_index = c.ignore_index;
  p.reduction = static_cast<Reduction>(c.reduction);
  p.grad_logprob = MaybeConst(c.grad_logprob);
  p.grad_entropy = MaybeConst(c.grad_entropy);
  call.results = {.logprob = Maybe(c.logprob),
                  .loss = Maybe(c.loss),
                  .entropy = Maybe(c.entropy),
                  .lse = Maybe(c.lse),
                  .grad_hidden = Maybe(c.grad_hidden),
                  .grad_weight = Maybe(c.grad_weight),
                  .first_invalid_row = Maybe(c.first_invalid_row)};
  call.execution.device = static_cast<Device>(c.device);
  call.execution.threads = c.threads;
  call.execution.stream = c.stream;
  call.execution.saved_logits_bytes = c.kept_logits_bytes;
  call.execution.kept_logits_bytes = c.kept_logits_bytes;
  return call;
}

// Makes a code of whatever a function does: no exception may pass through a caller in C.
template <class Function>
int32_t Guarded(const Function& function) {
  try {
    return Said(function());
  } catch (const std::exception& e) {
    return Said(Status::Error(Code::kFailed, e.what()));
  }
}

}  // namespace
}  // namespace plumbline::kernel

using plumbline::kernel::Call;
using plumbline::kernel::Guarded;
using plumbline::kernel::Read;

int32_t plumbline_operator_call_size() { return static_cast<int32_t>(sizeof(plumbline_operator_call)); }

int32_t plumbline_operator_has_cuda() { return PLUMBLINE_OPERATOR_HAS_CUDA; }

const char* plumbline_operator_message() { return plumbline::kernel::last_message.c_str(); }

int32_t plumbline_operator_sizes(plumbline_operator_call* call) {
  return Guarded([&] {
    const Call c = Read(*call);
    plumbline::kernel::Sizes sizes;
    plumbline::kernel::Status status = GetSizes(c.problem, c.results, c.execution, &sizes);
    call->workspace_bytes = sizes.workspace;
    call->saved_bytes = sizes.saved;
    return status;
  });
}

int32_t plumbline_operator_forward(const plumbline_operator_call* call) {
  return Guarded([&] {
    const Call c = Read(*call);
    return Forward(c.problem, c.results, c.execution, call->workspace, call->saved);
  });
}

int32_t plumbline_operator_backward(const plumbline_operator_call* call) {
  return Guarded([&] {
    const Call c = Read(*call);
    return Backward(c.problem, c.results, c.execution, call->workspace, call->saved);
  });
}

int32_t plumbline_operator_forward_backward_sizes(plumbline_operator_call* call) {
  return Guarded([&] {
    const Call c = Read(*call);
    size_t workspace = 0;
    plumbline::kernel::Status status =
        GetForwardBackwardSize(c.problem, c.results, c.execution, &workspace);
    call->workspace_bytes = workspace;
    call->saved_bytes = 0;
    return status;
  });
}

int32_t plumbline_operator_forward_backward(const plumbline_operator_call* call) {
  return Guarded([&] {
    const Call c = Read(*call);
    return ForwardBackward(c.problem, c.results, c.execution, {}, call->workspace);
  });
}
