// SPDX-License-Identifier: Apache-2.0
//
// A problem of a given shape with random data, for benchmarks. Logits have a spread of a few units, so
// that exponentials get the arguments of a real softmax.

#pragma once

#include <cstdint>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::bench {

struct Shape {
  const char* name;
  kernel::DType dtype;
  int64_t n, v, h;
  bool hidden_major;

  double products() const {
    return static_cast<double>(n) * static_cast<double>(v) * static_cast<double>(h);
  }
};

// Asks for logprob and entropy, and for both gradients if `backward`. fuzz::Placement gives the views,
// with memory for the results.
fuzz::OwnedProblem RandomProblem(const Shape& shape, bool backward);

}  // namespace plumbline::bench
