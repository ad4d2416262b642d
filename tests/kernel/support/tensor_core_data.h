// SPDX-License-Identifier: Apache-2.0
//
// Operands of dot products that aim at the rules of a tensor core, each kind at another.

#ifndef PLUMBLINE_TESTS_KERNEL_SUPPORT_TENSOR_CORE_DATA_H_
#define PLUMBLINE_TESTS_KERNEL_SUPPORT_TENSOR_CORE_DATA_H_

#include <cstdint>

#include "kernel/dtype.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {

enum class DataKind : uint8_t {
  kBell,        // ordinary numbers
  kPatterns,    // any bits but infinities and NaN
  kSpecial,     // the same with infinities, NaN and zeros among them
  kSpread,      // exponents of products over some 60 binades: what is truncated, and what is lost
  kCancelling,  // large terms of both signs, leaving what the alignment kept
  kLike,        // all terms of one sign and near the largest significand: the sum needs 33 bits
  kSubnormal,   // subnormal elements beside ordinary ones
  kTinyDense,   // products from 2^-120 to 2^-160, no term zero
  kTinySparse,  // the same with zeros among the terms
  kHuge,        // sums on both sides of the largest fp32
};
inline constexpr int kDataKinds = 10;
const char* NameOf(DataKind kind);

// Fills a and b with `depth` numbers that dtype holds.
void DrawOperands(DType dtype, DataKind kind, int64_t depth, TestRandom* random, float* a, float* b);

}  // namespace plumbline::kernel

#endif  // PLUMBLINE_TESTS_KERNEL_SUPPORT_TENSOR_CORE_DATA_H_
