// SPDX-License-Identifier: Apache-2.0
//
// Memory for the outputs of a problem, of which the places that are compared are written alone: as a
// whole, grad_weight of 151936 x 4096 would be 2.5 GB.

#pragma once

#include <cstdint>
#include <memory>

#include "kernel/problem.h"

namespace plumbline::false_alarms {

class Outputs {
 public:
  // Room for every output of the problem, zero; gradients in this dtype. bad_alloc if there is none.
  Outputs(const kernel::Problem& problem, kernel::DType gradients);

  const kernel::Results& results() const { return results_; }
  // The same without what a kernel does not compute.
  kernel::Results Without(bool grad_hidden, bool grad_weight) const;

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  kernel::Tensor Room(int rank, int64_t rows, int64_t columns, kernel::DType dtype, int at);

  std::unique_ptr<void, Free> memory_[5];
  kernel::Results results_;
};

// Writes one element, rounded to the tensor's dtype.
void Write(const kernel::Tensor& tensor, int64_t i, int64_t j, float value);

}  // namespace plumbline::false_alarms
