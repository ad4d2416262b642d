// SPDX-License-Identifier: Apache-2.0
//
// Runs the operator on random data on the device, as training calls it: bf16 throughout, reduction
// none, both upstream gradients, both gradients asked for. hidden is N(0, 1) and weight N(0, 4/H), so
// that logits have a standard deviation of 2; labels are uniform, the upstream gradients N(0, 1).

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/cuda/fill.h"
#include "bench/cuda/memory.h"
#include "kernel/linear_cross_entropy.h"

namespace plumbline::bench {

struct DeviceShape {
  int64_t n, h, v;
  bool half_ignored = false;  // ignores every row with probability 1/2

  std::string name() const;  // "8192x4096x151936", "…_half_ignored"
  bool operator==(const DeviceShape&) const = default;
};

// Throws std::runtime_error if memory or a launch fails, or if the operator refuses.
class OperatorRun {
 public:
  OperatorRun(const DeviceShape& shape, cudaStream_t stream);
  OperatorRun(const OperatorRun&) = delete;
  OperatorRun& operator=(const OperatorRun&) = delete;

  // Asks for the sizes anew.
  void AskSizes();
  // These enqueue.
  void Forward();
  void Backward();
  // Writes NaN over every output, so that numbers found afterwards were written since.
  void PoisonOutputs();
  // These wait for the device, and throw if an output still holds PoisonOutputs' value or anything else
  // that is no number: a logprob or an entropy of any row; a gradient, by its norm, which may not be 0
  // either.
  void CheckForward() const;
  void CheckGradients() const;
  // Runs gradients in forward: both passes at once. Its workspace is allocated at the first call.
  void ForwardBackward();

  const DeviceShape& shape() const { return shape_; }
  // Returns the rows that are not ignored, ascending.
  const std::vector<int64_t>& live_rows() const { return live_rows_; }
  const DeviceArray<Bf16>& hidden() const { return hidden_; }
  const DeviceArray<Bf16>& weight() const { return weight_; }
  const DeviceArray<int64_t>& labels() const { return labels_; }
  const DeviceArray<float>& grad_logprob() const { return grad_logprob_; }
  const DeviceArray<float>& grad_entropy() const { return grad_entropy_; }
  const DeviceArray<float>& logprob() const { return logprob_; }
  const DeviceArray<float>& entropy() const { return entropy_; }
  const DeviceArray<Bf16>& grad_hidden() const { return grad_hidden_; }
  const DeviceArray<Bf16>& grad_weight() const { return grad_weight_; }

  // Return the sizes that a caller must provide: for forward alone, and with both gradients.
  const kernel::Sizes& forward_sizes() const { return forward_sizes_; }
  const kernel::Sizes& sizes() const { return sizes_; }
  size_t forward_backward_workspace() const { return forward_backward_workspace_; }

 private:
  DeviceShape shape_;
  cudaStream_t stream_;
  kernel::Execution execution_;
  DeviceArray<Bf16> hidden_, weight_;
  DeviceArray<int64_t> labels_;
  DeviceArray<float> grad_logprob_, grad_entropy_, logprob_, entropy_;
  DeviceArray<Bf16> grad_hidden_, grad_weight_;
  std::vector<int64_t> live_rows_;
  kernel::Problem problem_;
  kernel::Results results_;
  kernel::Sizes forward_sizes_, sizes_;
  size_t forward_backward_workspace_ = 0;
  DeviceArray<std::byte> workspace_, saved_, at_once_;
};

// Returns the sum over all elements; enqueues on `stream` and waits for it.
double SumOfSquares(const DeviceArray<Bf16>& array, cudaStream_t stream);

}  // namespace plumbline::bench
