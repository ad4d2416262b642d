// SPDX-License-Identifier: Apache-2.0
//
// Logits that a contract stores in 16 bits: the value that the exact logit rounds to, and the most that
// the target's may be off from it (oracle/STORED-STEPS.md).

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernel/dtype.h"
#include "oracle/budget/arithmetic.h"

namespace plumbline::oracle {

// x rounded to nearest, ties to even; infinite beyond the largest of the dtype. fp32, too.
double RoundTo(kernel::DType dtype, double x);

// A sum of doubles without an error, as long as no partial sum overflows or underflows.
class ExactSum {
 public:
  void Add(double x);
  // The sum, within 2^-52 of itself, and with its sign.
  double Nearest() const { return parts_.empty() ? 0 : parts_.back(); }

 private:
  std::vector<double> parts_;  // apart from each other in their bits, in increasing order
};

// A logit as the reference knows it.
struct KnownLogit {
  double z = 0;      // before the temperature, in fp64
  double error = 0;  // |z - exact| is at most this; 0: z is exact
  double bound = 0;  // B_z, the most that the target's dot product may be off from exact
};
// The logit after its rounding: z, or x = z/T where x is what is rounded. bound is infinite where it
// may round to infinity.
struct RoundedLogit {
  double value = 0, bound = 0;
};
// `exact` forms the exact logit; it is asked where z is too near a tie to tell. At least one of
// target.logits and target.scaled_logits is given.
RoundedLogit RoundLogit(const Arithmetic& target, double temperature, const KnownLogit& logit,
                        const std::function<ExactSum()>& exact);

}  // namespace plumbline::oracle
