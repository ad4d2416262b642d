// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/rounded_logits.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace plumbline::oracle {
namespace {

// The exact logit, formed when it is first asked for.
struct Asked {
  double Nearest() { return Sum().Nearest(); }
  int SignLess(double x) {
    ExactSum difference = Sum();
    difference.Add(-x);
    return rounding::SignOf(difference.Nearest());
  }
  const ExactSum& Sum() {
    if (!sum) sum = exact();
    return *sum;
  }

  const std::function<ExactSum()>& exact;
  std::optional<ExactSum> sum = {};
};

}  // namespace

void ExactSum::Add(double x) {
  size_t kept = 0;
  for (double part : parts_) {
    if (std::fabs(x) < std::fabs(part)) std::swap(x, part);
    const double sum = x + part, rest = part - (sum - x);
    if (rest != 0) parts_[kept++] = rest;
    x = sum;
  }
  parts_.resize(kept);
  if (x != 0) parts_.push_back(x);
}

ExactSum ExactDot(std::span<const double> a, std::span<const double> b) {
  ExactSum sum;
  for (size_t d = 0; d < a.size(); ++d) sum.Add(a[d] * b[d]);
  return sum;
}

double ReferenceGamma(int64_t hidden_size) {
  return Gamma(static_cast<double>(std::max<int64_t>(hidden_size - 1, 0)), 0x1p-53);
}

LogitTerms UnroundedTermsOf(const Arithmetic& target, int64_t hidden_size) {
  Arithmetic dot = target;
  dot.logits = dot.scaled_logits = {};
  return LogitTermsOf(dot, hidden_size);
}

LogitSteps StepsOf(const Arithmetic& target, double temperature) {
  LogitSteps steps;
  steps.rounds_logits = target.logits.has_value();
  steps.rounds_scaled = target.scaled_logits.has_value();
  steps.logits = target.logits.value_or(kernel::DType::kF32);
  steps.scaled = target.scaled_logits.value_or(kernel::DType::kF32);
  steps.temperature = temperature;
  steps.scale_roundings = target.scale_roundings;
  steps.flush = target.flush;
  steps.largest_partial = target.largest_partial;
  return steps;
}

RoundedLogit RoundLogit(const LogitSteps& steps, const KnownLogit& logit,
                        const std::function<ExactSum()>& exact) {
  Asked asked{exact};
  return RoundLogitBy(steps, logit, &asked);
}

}  // namespace plumbline::oracle
