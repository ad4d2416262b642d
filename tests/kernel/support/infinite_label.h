// SPDX-License-Identifier: Apache-2.0
//
// Rows whose label has a logit of -inf, with every value a power of two, so that any arithmetic has
// the exact gradients: those of PyTorch's cross_entropy, softmax minus one-hot.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {

// Two rows whose logits are equal at columns 0 and 2 and -inf at column 1. Column 1 is the label of row
// 0, column 0 that of row 1.
inline TestValues InfiniteLabel(DType dtype, float g, float k, float temperature) {
  TestValues values = TestValues::Random(dtype, 2, 3, 2, 3);
  values.hidden = {1, 0.5f, 2, 0.25f};
  values.weight = {0, 2, -std::numeric_limits<float>::infinity(), 4, 0, 2};
  values.labels = {1, 0};
  values.temperature.assign(2, temperature);
  values.g = {g, -0.5f};
  values.k = {k, 0.25f};
  return values;
}

// Expects dz of row 0 to be (-g/2, g, -g/2) / T, where g is its upstream gradient after the reduction,
// and dz of row 1, whose upstream gradient is `other`, to be (1, 0, -1) other / 2T.
inline void ExpectInfiniteLabel(const TestOutputs& out, float g, float other, float temperature) {
  const float dz = g / temperature, beside = other / temperature;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ASSERT_EQ(out.grad_hidden.size(), 4u);
  EXPECT_EQ(TestOutputs::Float(out.grad_hidden[0]), g > 0 ? -kInfinity : kInfinity) << "dz * -inf";
  EXPECT_EQ(TestOutputs::Float(out.grad_hidden[1]), 2 * dz);
  EXPECT_TRUE(std::isnan(TestOutputs::Float(out.grad_hidden[2]))) << "0 * -inf";
  EXPECT_EQ(TestOutputs::Float(out.grad_hidden[3]), 0);
  ASSERT_EQ(out.grad_weight.size(), 6u);
  EXPECT_EQ(TestOutputs::Float(out.grad_weight[0]), -dz / 2 + beside);
  EXPECT_EQ(TestOutputs::Float(out.grad_weight[1]), -dz / 4 + beside / 8);
  EXPECT_EQ(TestOutputs::Float(out.grad_weight[2]), dz);
  EXPECT_EQ(TestOutputs::Float(out.grad_weight[3]), dz / 2);
  EXPECT_EQ(TestOutputs::Float(out.grad_weight[4]), -dz / 2 - beside);
  EXPECT_EQ(TestOutputs::Float(out.grad_weight[5]), -dz / 4 - beside / 8);
}

}  // namespace plumbline::kernel
