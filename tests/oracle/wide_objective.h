// SPDX-License-Identifier: Apache-2.0
//
// The forward objective sum_i (g_i logprob_i + k_i entropy_i), or with the loss in place of logprob, as
// a function of its inputs at 256 bits, and its derivative along a direction. Gradients are checked
// against it, so it uses none of their formulas.

#pragma once

#include <cstdint>
#include <vector>

#include "kernel/problem.h"

namespace plumbline::oracle {

struct WideInputs {
  int64_t n = 0, v = 0, h = 0;
  std::vector<double> hidden, weight;  // [N, H], [V, H]
  std::vector<int64_t> label;          // [N]; negative: the row is ignored
  std::vector<double> temperature;     // [N]
  kernel::Reduction reduction = kernel::Reduction::kNone;
  std::vector<double> grad_logprob;  // [N], or [1] with a reduction
  std::vector<double> grad_entropy;  // [N]
};

// The derivative at the inputs along (hidden_direction, weight_direction). It is formed by central
// differences with steps 2^-40 and 2^-41, extrapolated once. The error is 2^-162 times a fifth
// derivative and 2^-256 2^41 times the objective, which fp64 could not show for inputs of ordinary
// size.
double DirectionalDerivative(const WideInputs& inputs, const std::vector<double>& hidden_direction,
                             const std::vector<double>& weight_direction);

}  // namespace plumbline::oracle
