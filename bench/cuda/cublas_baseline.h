// SPDX-License-Identifier: Apache-2.0
//
// The products that the operator's work consists of, done by cuBLAS on the same operands (the rows that
// are not ignored, moved together): logits; and for backward logits again, d_logits · weight and
// d_logitsᵀ · hidden. Nothing but the products: no softmax, no row is picked, while it is timed.

#ifndef PLUMBLINE_BENCH_CUDA_CUBLAS_BASELINE_H_
#define PLUMBLINE_BENCH_CUDA_CUBLAS_BASELINE_H_

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
  // On the operands of `run`, which outlives it.
  CublasBaseline(const OperatorRun& run, cudaStream_t stream);

  // Wait for the device, and throw where what the operator wrote is not what these products say: a
  // logprob further from theirs than rounding logits to bf16 explains, or a gradient whose norm is not
  // theirs within a tenth (that there is one; tests/gpu/accept says whether it is right).
  void CheckLogprob(const OperatorRun& run);
  void CheckGradients(const OperatorRun& run);

  // Enqueues one product, or three, or four.
  void Forward();
  void Backward();
  void ForwardBackward();

  double flop_of_a_product() const;
  // Which cuBLAS call each product is done by: of Forward, or of all.
  std::string choices_of_forward() const;
  std::string choices() const;

 private:
  cudaStream_t stream_;
  int64_t n_, h_, v_;  // of rows, those that are not ignored
  DeviceArray<int64_t> rows_, labels_;
  DeviceArray<Bf16> hidden_;
  const DeviceArray<Bf16>* weight_;
  DeviceArray<float> g_, k_, logprob_, largest_;
  DeviceArray<Bf16> logits_, d_logits_, grad_hidden_, grad_weight_;
  CublasProducts cublas_;
  CublasProducts::Choice of_logits_, of_hidden_, of_weight_;
};

}  // namespace plumbline::bench

#endif  // PLUMBLINE_BENCH_CUDA_CUBLAS_BASELINE_H_
