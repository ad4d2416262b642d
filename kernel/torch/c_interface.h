// SPDX-License-Identifier: Apache-2.0
//
// The operator for callers without C++: one struct of plain data a call, and functions that read and
// write it. kernel/OPERATION.md specifies what is computed; kernel/linear_cross_entropy.h the
// arguments.
//
// A function returns a plumbline::kernel::Code as a number: 0 ok, 1 invalid argument, 2 invalid data,
// 3 unsupported, 4 failed. plumbline_operator_message() is the text of the calling thread's last code
// that was not 0.

#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A strided view of rank 0 to 2, as plumbline::kernel::BasicTensor: strides count elements.
struct plumbline_operator_tensor {
  void* data;
  int32_t dtype;  // 0 bf16, 1 fp16, 2 fp32, 3 int32, 4 int64
  int32_t rank;   // -1: absent
  int64_t shape[2];
  int64_t stride[2];
};

struct plumbline_operator_call {
  int32_t device;   // 0 host, 1 the current CUDA device
  int32_t threads;  // host: the most threads, 0: one per hardware thread
  void* stream;     // CUDA: a cudaStream_t
  uint64_t kept_logits_bytes;  // CUDA: the most bytes of logits that forward keeps for backward
  int64_t ignore_index;
  int32_t reduction;                      // 0 none, 1 sum, 2 mean
  int32_t reserved;                       // 0
  uint64_t workspace_bytes, saved_bytes;  // written by the functions of sizes
  void *workspace, *saved;                // read by the passes
  struct plumbline_operator_tensor hidden, weight, labels, temperature, grad_logprob, grad_entropy;
  struct plumbline_operator_tensor logprob, loss, entropy, lse, grad_hidden, grad_weight;
  struct plumbline_operator_tensor first_invalid_row;
};

// sizeof(plumbline_operator_call): a caller that lays the struct out by itself compares.
int32_t plumbline_operator_call_size(void);
// 1 if the library was built with CUDA, else 0.
int32_t plumbline_operator_has_cuda(void);
const char* plumbline_operator_message(void);

int32_t plumbline_operator_sizes(struct plumbline_operator_call* call);
int32_t plumbline_operator_forward(const struct plumbline_operator_call* call);
int32_t plumbline_operator_backward(const struct plumbline_operator_call* call);

// Both passes in one call, for the upstream gradients of the call itself. It leaves no saved state: the
// logits that it keeps lie in its workspace.
int32_t plumbline_operator_forward_backward_sizes(struct plumbline_operator_call* call);
int32_t plumbline_operator_forward_backward(const struct plumbline_operator_call* call);

#ifdef __cplusplus
}
#endif
