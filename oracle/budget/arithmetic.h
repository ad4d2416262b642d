// SPDX-License-Identifier: Apache-2.0
//
// Turns a contract into the constants of the error budget for one problem's shape, and says how large
// the fp64 reference's own errors are as a fraction of the bound that follows from them.
//
// All errors are relative and already multiplied by the unit roundoff, unless a comment says absolute.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernel/dtype.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// n u / (1 - n u), or infinity where n u >= 1 makes that no bound (Higham 2002, section 3.1).
double Gamma(double n, double u);

// The unit roundoff of a storage dtype, half its least subnormal, and its largest finite value.
struct Rounding {
  double u = 0;
  double eta = 0;
  double largest = 0;
};
Rounding RoundingOf(kernel::DType dtype);

struct Arithmetic {
  double u = 0;
  double eta = 0;               // absolute: underflow of one operation in a dot product
  double exp_underflow = 0;     // phi: absolute error of an exponential that underflows
  double result_underflow = 0;  // eta_f: absolute, underflow of other fp32 operations
  bool flush = false;           // ... which lose all of a result below 2^-126

  // z_computed - z| <= dot * S + (K + 1) eta, K the length, unless the dot product is certified exact.
  // S and every sum of magnitudes are formed with nonzero operands raised to least_operand
  // (ERROR-BUDGET.md, "Dot products").
  double least_operand = 0;
  double dot_logit = 0;        // length H
  double dot_grad_hidden = 0;  // length V, on d_logits as stored
  double dot_grad_weight = 0;  // length N
  bool certificate = false;    // dot products that are exact in any order are exact in this arithmetic
  double certificate_limit =
      0x1p24;  // ... where sum |h w| is at most this many units of their lowest bit
  double certificate_lsb = -149;
  bool flush_operands = false;  // subnormal operands of a dot product may count as 0
  // Partial dot products in 16 bits: what they lose by underflow, and the largest of their dtype.
  double partial_underflow = 0, largest_partial = 0x1.fffffep127;

  // Logits that are stored in 16 bits ("Rounded logits").
  std::optional<kernel::DType> logits, scaled_logits;
  bool RoundsLogits() const { return logits.has_value() || scaled_logits.has_value(); }

  bool scale_before = false;
  bool scale_exact = false;       // 1/T rounds nothing
  double scale_roundings = 0;     // gamma(k_s) or gamma(k_c)
  double argument_roundings = 0;  // gamma(k_a), all roundings of t
  bool exact_max = false;         // the maximum's weight is exactly 1
  double shift_rounding = 0;      // M, which is subtracted for m, may be off by this times |m|
  double exp_error = 0;
  double log_absolute = 0, log_relative = 0;
  double division = 0;              // of e/s
  double entropy_division = 0;      // of the sum of e t by s
  double loss_division = 0;         // of the loss by n
  double upstream_division = 0;     // of gamma by n
  double temperature_division = 0;  // of dx by T, by whatever 1/T the logits were scaled with
  double rescales = 0;              // r
  double sum_depth = 0;             // h_s
  bool label_logit_separate = false, plain_logprob = false, plain_entropy = false;
  bool entropy_of_probabilities = false, log_softmax_backward = false;
  bool recompute_same_bits = false, ratio = false;
  // Backward's exponents are kept: relative to their distance from a tile's maximum, absolute, and
  // relative to what the two exponents add up to ("Kept exponents").
  double kept_argument = 0, kept_underflow = 0, kept_sum = 0;
  Rounding softmax_sum, log_probs, probabilities;  // u = 0: kept in fp32
  // The operations that form a gradient of log-probabilities: their error, and what one loses by
  // underflow ("Gradients of log-probabilities").
  double log_gradient = 0, log_gradient_underflow = 0;
  double largest_log_gradient = 0x1.fffffep127;

  Rounding d_logits{0, 0, 0x1.fffffep127};  // u = 0: stored in fp32, no further rounding
  Rounding dx;                              // u = 0: d_logits before they are divided by T stay in fp32
  double filter = 0;                        // a d_logit whose |[v = y] - p| is below it may be 0
  double d_logits_lost = 0;     // the most that rounding a subnormal d_logit as an operand may lose
  double stretches_hidden = 1;  // sums of columns from zero in grad_hidden (grad_hidden_stretch)
  double chunks_hidden = 0;     // low-precision accumulations; 0: none
  double chunks_weight = 0;
  Rounding accumulator{0x1p-24, 0x1p-150, 0x1.fffffep127};

  std::array<Rounding, kOutputs.size()> outputs = {};  // u = 0: as its tensor is
  const Rounding& Of(Output output) const { return outputs[static_cast<size_t>(output)]; }
};

struct Shape {
  int64_t n = 0, v = 0, h = 0;
};

Arithmetic TargetArithmetic(const Contract& contract, kernel::DType input, const Shape& shape);

// The arithmetic at each temperature: all roundings of the scale at any T, fewer where T is a power of
// two and the contract says that such a T rounds nothing.
struct ArithmeticByTemperature {
  ArithmeticByTemperature(const Contract& contract, kernel::DType input, const Shape& shape);
  const Arithmetic& At(double temperature) const;
  Arithmetic any, power;
};

// The reference's error in an element is at most this ratio times the element's bound (ERROR-BUDGET.md,
// "The radius").
struct RadiusRatios {
  double forward = 0;      // logprob, entropy, lse, loss and every d_logit
  double grad_hidden = 0;  // counted without the rounding to the output's dtype
  double grad_weight = 0;
};
RadiusRatios RadiusOver(const Arithmetic& target, const Shape& shape);

}  // namespace plumbline::oracle
