// SPDX-License-Identifier: Apache-2.0
//
// An operator that errs as much as a contract lets it. It does every operation of the definitions in
// kernel/OPERATION.md in long double, moved by its full rounding error in a direction that the seed
// chooses. Its results must lie within the bounds of that contract for every seed. For some seeds they
// must come close, or the bounds would prove nothing.
//
// It shares no formula with the budget. A result that fp32 holds exactly is not moved, so a dot product
// that is exact in any order is exact here.

#pragma once

#include <cstdint>
#include <vector>

#include "oracle/contract.h"
#include "oracle/output.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {

struct Simulated {
  std::vector<double> logprob, entropy, lse;     // [N]; 0 in ignored rows
  double loss = 0;                               // for sum and mean
  std::vector<double> grad_hidden, grad_weight;  // [N, H], [V, H], rounded to the dtype of the inputs

  const std::vector<double>& of(Output output) const {
    return output == Output::kLogprob      ? logprob
           : output == Output::kEntropy    ? entropy
           : output == Output::kLse        ? lse
           : output == Output::kGradHidden ? grad_hidden
                                           : grad_weight;
  }
};

// Requires finite inputs, valid or ignored labels, and V > 0. It ignores input_planes, whose errors
// tests/fuzz/builtin/host_hopper_test.cc has from a tensor core bit for bit.
Simulated Simulate(const kernel::Problem& problem, const Contract& contract, uint64_t seed);

}  // namespace plumbline::oracle
