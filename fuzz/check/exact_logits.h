// SPDX-License-Identifier: Apache-2.0
//
// The logits z = hidden . weight^T of a few rows in fp64, kept in memory so that one hypothesis after
// another can be computed of them.

#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/problem.h"

namespace plumbline::fuzz {

class ExactLogits {
 public:
  // Computes the logits of the problem's rows `rows`, in host memory, before any division by the
  // temperature. Each is one chain of V x H fused multiply-adds in fp64.
  ExactLogits(const kernel::Problem& problem, std::span<const int64_t> rows, int threads,
              const std::atomic<bool>* interrupt);

  int64_t rows() const { return rows_; }
  int64_t vocab() const { return vocab_; }
  // The [V] logits of the row at this place in the list. Not all are there if the interrupt was raised.
  std::span<const double> of(int64_t at) const {
    return {values_.data() + at * stride_, static_cast<size_t>(vocab_)};
  }

 private:
  int64_t rows_, vocab_, stride_;
  std::vector<double> values_;
};

}  // namespace plumbline::fuzz
