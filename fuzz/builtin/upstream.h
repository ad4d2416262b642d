// SPDX-License-Identifier: Apache-2.0
//
// A problem in the form that ForwardBackward takes. Without a reduction, upstream gradients come from a
// callback. It copies them into place on the device, row by row. A row whose forward results were not
// handed to it with the bits that the outputs have gets NaN.

#pragma once

#include <cstdint>
#include <optional>

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::fuzz {

class UpstreamOfProblem {
 public:
  // Results must outlive it.
  UpstreamOfProblem(const kernel::Problem& problem, const kernel::Results& results);
  UpstreamOfProblem(const UpstreamOfProblem&) = delete;
  UpstreamOfProblem& operator=(const UpstreamOfProblem&) = delete;

  const kernel::Problem& problem() const { return problem_; }
  // The upstream gradients. Valid as long as this object.
  kernel::UpstreamGradients gradients();

 private:
  static kernel::Status Answer(void* self, const kernel::RowBlock& block);

  kernel::Problem problem_;
  const kernel::Results& results_;
  std::optional<kernel::ConstTensor> grad_logprob_, grad_entropy_;
};

// A vector in device memory. data is null if it is absent.
struct StridedFloats {
  const float* data = nullptr;
  int64_t stride = 0;
};

// The copy that the callback enqueues: to = from in rows where every `handed` has the bits of
// `written`; NaN in the others.
struct CopyUpstream {
  static constexpr int kResults = 3;
  int64_t rows = 0;
  const float* handed[kResults] = {};
  StridedFloats written[kResults];
  StridedFloats grad_logprob, grad_entropy;
  float *to_logprob = nullptr, *to_entropy = nullptr;
};
kernel::Status Enqueue(const CopyUpstream& copy, void* stream);

}  // namespace plumbline::fuzz
