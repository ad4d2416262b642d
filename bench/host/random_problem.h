// SPDX-License-Identifier: Apache-2.0
//
// A problem of a given shape with random data, and room for its results, for benchmarks. Logits have a
// spread of a few units, so that exponentials get the arguments of a real softmax.

#ifndef PLUMBLINE_BENCH_HOST_RANDOM_PROBLEM_H_
#define PLUMBLINE_BENCH_HOST_RANDOM_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/problem.h"

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

// It holds views into itself, so it must not be moved.
class RandomProblem {
 public:
  RandomProblem(const Shape& shape, bool backward);
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;

  const kernel::Problem& problem() const { return problem_; }
  const kernel::Results& results() const { return results_; }

 private:
  std::vector<std::byte> hidden_, weight_, grad_hidden_, grad_weight_;
  std::vector<int64_t> labels_;
  std::vector<float> ones_, logprob_, entropy_;
  kernel::Problem problem_;
  kernel::Results results_;
};

}  // namespace plumbline::bench

#endif  // PLUMBLINE_BENCH_HOST_RANDOM_PROBLEM_H_
