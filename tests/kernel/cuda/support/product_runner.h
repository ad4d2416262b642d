// SPDX-License-Identifier: Apache-2.0
//
// Runs one of the Hopper path's main loops on the device with an epilogue that stores the sums.
// Elements are small integers, so every sum is exact in fp32 in any order, and must equal a plain
// loop's bit for bit. Memory that a product must not read is NaN; memory that it must not write holds a
// mark.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::kernel::cuda {

// The main loops: major orders and tiles of launch_product.cuh.
enum class Loop { kLogits, kGradHidden, kGradWeight, kFewRowsLogits };

inline bool IsGradHidden(Loop loop) { return loop == Loop::kGradHidden; }

struct ProductCase {
  Loop loop = Loop::kLogits;
  bool half = false;  // fp16, else bf16
  int64_t m = 1, n = 1, k = 1;
  int64_t a_pad = 0, b_pad = 0;  // elements after a row, rounded up to a multiple that TMA can address
  int passes = 1;                // or 6
  bool accumulate = false;       // grad_hidden only: C already holds sums
  int64_t stretch = 0;           // kGradHidden: of the depth; 0: one
  bool in_turn = false;          // those of a tile are stored one after another
  int64_t live = -1;             // -1: no live_rows
  int64_t live_first = 0;
  // kGradWeight: the units of a grad_hidden beside it, which decide how tiles are dealt; 0: there is
  // none.
  int unit_rows = 0, unit_columns = 0;
  int32_t begun = 0;  // Product::begun beforehand; a product that begins with 0 must leave 0
  enum { kNone, kNotUsed, kUsed } alternative = kNone;
  bool a_has_alternative = true, b_has_alternative = true;  // operands that have the alternative
  int mutant = -1;  // a row of the table of mutants; bf16 only, kLogits and kGradWeight
  uint64_t seed = 1;
};

std::string Describe(const ProductCase& c);

struct Outcome {
  std::string error;              // CUDA's or the launch's; empty if it ran
  int64_t wrong = 0;              // elements that are not what they must be, marks included
  int64_t row = -1, column = -1;  // the first of them
  float got = 0, want = 0;
};

// Returns why the Hopper path's device is not there, or nothing.
std::string WhyNoDevice();

Outcome RunProduct(const ProductCase& c);

// Multiplies given matrices, row-major bits of bf16 or fp16: A [planes][m, k], B [planes][n, k] for
// every loop; they are then laid out as the loop wants them. C starts from `before` if that is not
// empty. Returns the error, or nothing.
std::string Multiply(const ProductCase& c, const std::vector<uint16_t>& a,
                     const std::vector<uint16_t>& b, const std::vector<float>& before,
                     std::vector<float>* sums);

}  // namespace plumbline::kernel::cuda
