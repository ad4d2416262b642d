// SPDX-License-Identifier: Apache-2.0
//
// The softmax of one row and its derivative, in the fp32 arithmetic of a baseline. Formulas as in
// kernel/OPERATION.md.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/baseline/family.h"

namespace plumbline::fuzz {

struct RowScalars {
  int64_t label = 0;
  float temperature = 1;
  float g = 0, k = 0;  // d objective / d logprob, d entropy
};

struct RowForward {
  float logprob = 0, entropy = 0, lse = 0;
  // For the derivative: what the exponentials see as the maximum, s, and ln s.
  float shift = 0, s = 0, log_s = 0;
};

// `z`: the logits, [V], V > 0, finite.
RowForward ForwardOf(const Baseline& baseline, std::span<const float> z, const RowScalars& row);

// d objective / d z, of every column, rounded to the baseline's dtype of d_logits.
void DLogits(const Baseline& baseline, std::span<const float> z, const RowScalars& row,
             const RowForward& forward, std::span<float> d);

}  // namespace plumbline::fuzz
