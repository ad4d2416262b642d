// SPDX-License-Identifier: Apache-2.0
//
// A few rows of a judged dump (labels, temperature, upstream gradients, results), copied so that a
// hypothesis can change them. The reduction is always none: gamma or gamma/n of a reduction becomes one
// fp32 gradient a row, rounded once. The weight stays in the mapping.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/check/sample.h"
#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct DumpExcerpt {
  // `at`: positions in the sample, ascending. `counted`: the number of rows that mean divides by.
  DumpExcerpt(const DumpSample& sample, const kernel::Results& results, const std::vector<int64_t>& at,
              int64_t counted);

  std::vector<int64_t> rows;  // their indices in the dump
  kernel::ConstTensor weight;
  int64_t ignore_index;
  HostTensor hidden;
  HostTensor labels;                                                  // int64
  std::optional<HostTensor> temperature, grad_logprob, grad_entropy;  // [n] fp32
  std::optional<HostTensor> logprob, entropy, lse, grad_hidden;       // results

  kernel::Problem problem() const;
  kernel::Results results() const;  // for judging: never written
};

}  // namespace plumbline::fuzz
