// SPDX-License-Identifier: Apache-2.0
//
// Logits that a contract stores in 16 bits: the value that the exact logit rounds to, and the most that
// the target's may be off from it (oracle/STORED-STEPS.md).

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/column_terms.h"
#include "oracle/budget/logit_steps.h"

namespace plumbline::oracle {

// A sum of doubles without an error, as long as no partial sum overflows or underflows.
class ExactSum {
 public:
  void Add(double x);
  // The sum, within 2^-52 of itself, and with its sign.
  double Nearest() const { return parts_.empty() ? 0 : parts_.back(); }

 private:
  std::vector<double> parts_;  // apart from each other in their bits, in increasing order
};

// The exact dot product of two rows of inputs, whose products are exact in fp64.
ExactSum ExactDot(std::span<const double> a, std::span<const double> b);

// The reference's error of a logit, over S.
double ReferenceGamma(int64_t hidden_size);

// The terms of the logits before they are rounded.
LogitTerms UnroundedTermsOf(const Arithmetic& target, int64_t hidden_size);

// At least one of target.logits and target.scaled_logits is given.
LogitSteps StepsOf(const Arithmetic& target, double temperature);

// `exact` forms the exact logit; it is asked where z is too near a tie to tell.
RoundedLogit RoundLogit(const LogitSteps& steps, const KnownLogit& logit,
                        const std::function<ExactSum()>& exact);

}  // namespace plumbline::oracle
