// SPDX-License-Identifier: Apache-2.0
//
// Makes the matrix that the baseline's two gradient products read: d_logits of kernel/OPERATION.md, at
// T = 1, from logits that a GEMM rounded to bf16, itself rounded to bf16. It is a real one because a
// product's power, and on a power-limited device its speed, depends on the data.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "bench/cuda/fill.h"

namespace plumbline::bench {

// Logits and d_logits are contiguous [n, v]; labels, grad_logprob (g) and grad_entropy (k) have n
// elements.
struct SoftmaxGradient {
  const Bf16* logits;
  const int64_t* labels;
  const float* g;
  const float* k;
  int64_t n, v;
  Bf16* d_logits;
  float* logprob;  // [n], computed from these logits
  float* largest;  // [n] max |logit|

  void Enqueue(cudaStream_t stream) const;
};

}  // namespace plumbline::bench
