// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS does the products that the operator's work consists of, on the same operands (the rows that
// are not ignored, moved together): logits; and for backward logits again, d_logits · weight and
// d_logitsᵀ · hidden. Only the products are timed: no softmax, and no row is picked.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "bench/cuda/cublas_products.h"
#include "bench/cuda/fill.h"
#include "bench/cuda/memory.h"
#include "bench/cuda/operator_run.h"

namespace plumbline::bench {

class CublasBaseline {
 public:
  // Uses the operands of `run`, which must outlive it.
  CublasBaseline(const OperatorRun& run, cudaStream_t stream);

  // These wait for the device, and throw if the operator's outputs contradict these products: a logprob
  // differs by more than rounding logits to bf16 explains, or the norm of a gradient differs by more
  // than a tenth. That shows that a gradient was written; tests/gpu/accept tests whether it is right.
  void CheckLogprob(const OperatorRun& run);
  void CheckGradients(const OperatorRun& run);

  // Each enqueues one product, or three, or four.
  void Forward();
  void Backward();
  void ForwardBackward();

  double flop_of_a_product() const;
  // Names the cuBLAS call that does each product: of Forward, or of all.
  std::string choices_of_forward() const;
  std::string choices() const;

 private:
  cudaStream_t stream_;
  int64_t n_, h_, v_;  // n_ counts the rows that are not ignored
  DeviceArray<int64_t> rows_, labels_;
  DeviceArray<Bf16> hidden_;
  const DeviceArray<Bf16>* weight_;
  DeviceArray<float> g_, k_, logprob_, largest_;
  DeviceArray<Bf16> logits_, d_logits_, grad_hidden_, grad_weight_;
  CublasProducts cublas_;
  CublasProducts::Choice of_logits_, of_hidden_, of_weight_;
};

}  // namespace plumbline::bench
