// SPDX-License-Identifier: Apache-2.0
//
// How far the outputs of one row may be from being consistent with each other, from the contract's
// arithmetic and the row's norms alone: the error budget (oracle/budget) of the widest row that has
// them, without a logit. fuzz/consistency/CONSISTENCY.md, "What a row may err", derives each number.

#pragma once

#include <cstdint>

#include "oracle/budget/arithmetic.h"

namespace plumbline::fuzz {

// L, at least ln V, and what sum p ln^2 p is at most. 1 for V = 0.
double LargestEntropy(int64_t vocab);
double LargestSquare(int64_t vocab);

// |H' - H| where each logit moves by at most `change`.
double EntropyChange(double change, int64_t vocab);

struct RowInputs {
  int64_t vocab = 0;
  double temperature = 1;
  double g = 0, k = 0;
  double g_error = 0;        // relative error of g itself (`mean` divides by n)
  double largest_logit = 0;  // no sum of |h w| is larger
  double dot_error = 0;      // B_z: the error of each logit before the temperature
};

struct RowErrors {
  bool forward = false;   // the forward outputs are numbers, and what follows holds
  bool gradient = false;  // the gradients as well
  double logit = 0;       // delta: the error of each x = z / T as summed
  double moved = 0;       // the most that an x differs between two passes of the kernel
  // |logprob - exact| <= logprob + logprob_slope |logprob|, and |entropy - exact| <= entropy, where
  // exact is the function of the logits that this pass has summed.
  double logprob = 0, logprob_slope = 0, entropy = 0;
  double magnitude = 0;  // sum over v of |dz|
  // Sum over v of |dz as stored - dz|, where dz is the function of the logits of its own pass; then
  // without the rounding to the dtype of d_logits.
  double d_logits = 0, unrounded = 0;
  double passes = 0;  // sum over v of the difference of dz of the logits of two passes
};

RowErrors ErrorsOfRow(const RowInputs& row, const oracle::Arithmetic& arithmetic);

// Sum over v of |dz(x') - dz(x)| where each logit differs by at most `change`.
double DLogitsChange(const RowInputs& row, double change);

// The statistical tier's arithmetic: errors of many roundings add up as their root, and what d_logits
// are rounded to is left to the caller. `input_rounding` is the contract's.
oracle::Arithmetic UsualArithmetic(oracle::Arithmetic arithmetic, double input_rounding);
// The usual error of a logit, as a standard deviation, of which sub-Gaussian tails are assumed.
double UsualDotError(const oracle::Arithmetic& arithmetic, double input_rounding, double largest_logit,
                     double usual_logit, double magnitude);

}  // namespace plumbline::fuzz
