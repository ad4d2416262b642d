// SPDX-License-Identifier: Apache-2.0
//
// Compares the reference with the arbiter, which shares nothing with it, on every element of a problem
// or on one in so many. They agree if both say the same about what is zero, NaN or infinite, and if the
// reference's value lies within its own radius of the arbiter's.

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// Asks for every output that the problem's reduction allows, with gradients in `dtype` and without
// data.
kernel::Results Everything(const kernel::Problem& problem, kernel::DType dtype);

// The contract of a careful kernel: fp32 chains, the exact maximum, one logit for everything. Its
// bounds say something about logits of any size, and so do the radii, which are a share of the bounds.
Contract CarefulContract();

struct Agreement {
  // For each output: finite elements compared, the largest |value - arbiter| over radius among them,
  // and the largest radius over bound.
  std::array<int64_t, kOutputs.size()> finite{};
  std::array<double, kOutputs.size()> attained{};
  std::array<double, kOutputs.size()> radius{};
  int64_t special = 0, unspecified = 0;
  std::string first;  // the first disagreement; empty where there is none

  double Attained(Output output) const { return attained[static_cast<size_t>(output)]; }
  int64_t Finite(Output output) const { return finite[static_cast<size_t>(output)]; }
};

// Compares every element of the forward outputs, and the elements of a gradient whose index is a
// multiple of `step`.
void Compare(const kernel::Problem& problem, const Contract& contract, int64_t step,
             Agreement* agreement);

}  // namespace plumbline::oracle
