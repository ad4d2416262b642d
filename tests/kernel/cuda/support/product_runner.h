// SPDX-License-Identifier: Apache-2.0
//
// Runs one of the Hopper path's main loops on the device with an epilogue that stores the sums, on
// small integers: every sum is exact in fp32, whatever the order, so that it must equal a plain loop's
// bit for bit. What a product must not read is NaN; what it must not write holds a mark.

#ifndef PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_PRODUCT_RUNNER_H_
#define PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_PRODUCT_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::kernel::cuda {

// Which main loop: majors and tile of launch_product.cuh.
enum class Loop { kLogits, kGradHidden, kGradWeight, kFewRowsLogits, kFewRowsGradHidden };

inline bool IsGradHidden(Loop loop) {
  return loop == Loop::kGradHidden || loop == Loop::kFewRowsGradHidden;
}

struct ProductCase {
  Loop loop = Loop::kLogits;
  bool half = false;  // fp16, else bf16
  int64_t m = 1, n = 1, k = 1;
  int64_t a_pad = 0, b_pad = 0;  // elements after a row, rounded up to what TMA can address
  int passes = 1;                // or 6
  bool accumulate = false;       // grad_hidden only: C holds sums before
  int64_t live = -1;             // -1: no live_rows
  int64_t live_first = 0;
  // kGradWeight: as if beside a grad_hidden in such units, which decides how tiles are dealt; 0: not.
  int unit_rows = 0, unit_columns = 0;
  enum { kNone, kNotUsed, kUsed } alternative = kNone;
  bool a_has_alternative = true, b_has_alternative = true;  // which operands, where there is one
  int planted = 0;                                          // bf16 only, kLogits and kGradWeight
  uint64_t seed = 1;
};

std::string Describe(const ProductCase& c);

struct Outcome {
  std::string error;              // CUDA's or the launch's; empty if it ran
  int64_t wrong = 0;              // elements that are not what they must be, marks included
  int64_t row = -1, column = -1;  // the first of them
  float got = 0, want = 0;
};

// Empty where the device of the Hopper path is there, else why not.
std::string WhyNoDevice();

Outcome RunProduct(const ProductCase& c);

// C of one product of given matrices, row-major bits of bf16 or fp16: A [planes][m, k], B [planes][n,
// k] whatever the loop (they are laid out as it wants them). C starts from `before` if that is not
// empty.
std::string Multiply(const ProductCase& c, const std::vector<uint16_t>& a,
                     const std::vector<uint16_t>& b, const std::vector<float>& before,
                     std::vector<float>* sums);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_PRODUCT_RUNNER_H_
