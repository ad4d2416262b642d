// SPDX-License-Identifier: Apache-2.0
//
// Sums of products in every order and arithmetic that a kernel declares.

#pragma once

#include <cstdint>

#include "tests/fuzz/honest/arithmetic.h"

namespace honest {

// A vector of operands in memory.
struct Operands {
  const float* data;
  int64_t stride;
  float operator[](int64_t i) const { return data[i * stride]; }
  Operands From(int64_t i) const { return {data + i * stride, stride}; }
};

class Products {
 public:
  // least_exponent: of the inputs' format, -14 for fp16 and -126 for the others.
  Products(const Kernel& kernel, bool fp32_inputs, int least_exponent)
      : k_(kernel), fp_(kernel), fp32_(fp32_inputs), least_(least_exponent) {}

  // acc plus the sum of a[i] b[i], i < n, in one part.
  float Sum(Order order, Operands a, Operands b, int64_t n, float acc) const;
  // A logit: as many parts as the kernel has, added to each other.
  float Logit(Order order, const float* hidden, const float* weight, int64_t n) const;
  // An element of grad_hidden: in stretches, or in chunks that the accumulator is rounded after.
  float GradHidden(Operands dz, Operands weight, int64_t vocab) const;

  // True if products of fp32 inputs go through planes, each pass over all of a sum's products.
  bool InPlanes() const { return k_.planes && fp32_; }

 private:
  // Columns of a stretch; the kernel has some.
  int64_t StretchOf(int64_t vocab) const;
  float Chain(Order order, Operands a, Operands b, int64_t n, float acc) const;
  float Blocks(Operands a, Operands b, int64_t n, float acc) const;
  float Planes(Operands a, Operands b, int64_t n, float acc) const;
  float Block(const float* a, const float* b, int64_t n, float acc) const;
  float Operand(float x) const { return fp_.In(k_.tf32 ? ToTf32(x) : x); }

  const Kernel& k_;
  const Fp fp_;
  const bool fp32_;
  const int least_;
};

}  // namespace honest
