// SPDX-License-Identifier: Apache-2.0
//
// Two rows over three equal logits: every probability is 1/3, so logprob = -ln 3 and entropy = ln 3.

#pragma once

#include <cmath>
#include <cstdint>

#include "kernel/problem.h"

inline constexpr double kLn3 = 1.0986122886681098;

struct TinyProblem {
  float hidden[4] = {1, 2, 3, 4};
  float weight[6] = {0.5F, 0.25F, 0.5F, 0.25F, 0.5F, 0.25F};
  int64_t labels[2] = {0, 2};
  float logprob[2] = {};
  float entropy[2] = {};

  plumbline::kernel::Problem problem() const {
    using plumbline::kernel::DType;
    plumbline::kernel::Problem p;
    p.hidden = {hidden, DType::kF32, 2, {2, 2}, {2, 1}};
    p.weight = {weight, DType::kF32, 2, {3, 2}, {2, 1}};
    p.labels = {labels, DType::kI64, 1, {2, 1}, {1, 1}};
    return p;
  }
  plumbline::kernel::Results results() {
    using plumbline::kernel::DType;
    using plumbline::kernel::Tensor;
    plumbline::kernel::Results r;
    r.logprob = Tensor{logprob, DType::kF32, 1, {2, 1}, {1, 1}};
    r.entropy = Tensor{entropy, DType::kF32, 1, {2, 1}, {1, 1}};
    return r;
  }
  // Within 2^-20, some 10 roundings of fp32 at this size.
  bool IsRight() const {
    bool right = true;
    for (int i = 0; i < 2; ++i) {
      right = right && std::abs(logprob[i] + kLn3) < 0x1p-20 && std::abs(entropy[i] - kLn3) < 0x1p-20;
    }
    return right;
  }
};
