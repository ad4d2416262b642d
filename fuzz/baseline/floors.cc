// SPDX-License-Identifier: Apache-2.0
//
// The floors of Comparison's units: what one rounding of fp32 costs, and the expected error through the
// logits (BASELINES.md has the formulas).

#include <algorithm>
#include <cmath>

#include "fuzz/baseline/comparison.h"
#include "oracle/budget/arithmetic.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr double kLeastNormal = 0x1p-126, kLeastSubnormal = 0x1p-149;

}  // namespace

// The root mean square of a row's elements.
double Comparison::NormOf(const kernel::ConstTensor& matrix, int64_t row) const {
  std::vector<float> operand(static_cast<size_t>(inputs_.h));
  ReadRow(matrix, row, operand);
  double square = 0;
  for (const float x : operand) square += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(square / static_cast<double>(inputs_.h));
}

double Comparison::LargestNorm(size_t row, const Simulated<float>& baseline) const {
  const auto i = static_cast<size_t>(places_.rows[row]);
  double norm =
      std::max(NormOf(problem_.weight, inputs_.label[i]), NormOf(problem_.weight, baseline.top[row]));
  constexpr int64_t kOrdinary = 4;
  for (int64_t j = 0; j < std::min(kOrdinary, inputs_.v); ++j) {
    norm = std::max(norm, NormOf(problem_.weight, j * inputs_.v / kOrdinary % inputs_.v));
  }
  return norm;
}

// What one rounding of fp32 costs an element of a row's part in grad_hidden (times rows of weight) or
// in grad_weight (times a row of hidden): through 1 - p of the label, and through what all columns
// share of the entropy's derivative, k p (ln p + H), which is that of the largest logit's column or
// spread over ordinary ones. A plain form's H is rounded at the size of lse.
double Comparison::LabelFloor(Output output, size_t row, const Simulated<float>& baseline) const {
  const auto i = static_cast<size_t>(places_.rows[row]);
  const RowForward<float>& forward = baseline.forward[row];
  double of_label = 0, shared = 0;
  if (output == Output::kGradHidden) {
    of_label = NormOf(problem_.weight, inputs_.label[i]);
    shared = LargestNorm(row, baseline);
  } else {
    of_label = shared = hidden_norm_[row];
  }
  const double entropy = SumOfEntropy(forward);
  const double up = std::abs(inputs_.g[i]) * of_label + std::abs(inputs_.k[i]) * entropy * shared;
  return kUnitRoundoff * up * (1 + RoughOf(forward).probability / kShare) / inputs_.temperature[i];
}

double Comparison::GradientFloor(Output output, size_t at, const Simulated<float>& baseline) const {
  if (output == Output::kGradHidden) {
    const double norm = LargestNorm(at, baseline);
    return LabelFloor(output, at, baseline) + Flushed(inputs_.v, UpstreamOf(at) * norm) +
           LostInPlanes(inputs_.v, norm);
  }
  double square = 0, largest = 0, lost = 0, norm = 0;
  for (size_t r = 0; r < places_.rows.size(); ++r) {
    const auto i = static_cast<size_t>(places_.rows[r]);
    largest = std::max(largest, UpstreamOf(r) * hidden_norm_[r]);
    norm = std::max(norm, hidden_norm_[r]);
    if (given_.error > 0) {
      const double floor = GivenFloor(r, at, baseline);
      square += floor * floor;
    }
    if (inputs_.label[i] == places_.weight_rows[at]) {
      const double floor = LabelFloor(output, r, baseline);
      square += floor * floor;
      continue;
    }
    // What p and the entropy are rounded by, which does not cancel where the two terms of p do.
    const double p = static_cast<double>(baseline.probability[r * places_.weight_rows.size() + at]);
    if (p == 0) continue;
    const RowForward<float>& forward = baseline.forward[r];
    const double up = std::abs(inputs_.g[i]) + std::abs(inputs_.k[i]) * SumOfEntropy(forward);
    const double floor = kUnitRoundoff * p * up * (1 + RoughOf(forward).probability / kShare) *
                         hidden_norm_[r] / inputs_.temperature[i];
    square += floor * floor;
    // Each row loses by the same sign: these add up.
    const double tilt = std::abs(std::log(p) + static_cast<double>(forward.entropy));
    lost += LeastProbability() * (std::abs(inputs_.g[i]) + std::abs(inputs_.k[i]) * (1 + tilt)) *
            hidden_norm_[r] / inputs_.temperature[i];
  }
  return std::sqrt(square) + lost + Flushed(inputs_.n, largest) + LostInPlanes(inputs_.n, norm);
}

// What errors of a given lse and entropy make of an element, whose probability they move.
double Comparison::GivenFloor(size_t r, size_t at, const Simulated<float>& baseline) const {
  const double p = static_cast<double>(baseline.probability[r * places_.weight_rows.size() + at]);
  if (p == 0) return 0;
  const auto i = static_cast<size_t>(places_.rows[r]);
  const RowForward<float>& forward = baseline.forward[r];
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double tilt = std::abs(std::log(p) + static_cast<double>(forward.entropy));
  const double up = std::abs(inputs_.g[i]) + std::abs(inputs_.k[i]) * (2 + tilt);
  // The label's own probability comes from logprob, whose errors it shares.
  const bool label = inputs_.label[i] == places_.weight_rows[at];
  const double shared = contract_.probability == oracle::Probability::kRatio ? 1 : lse;
  const double error = label && given_.labels ? 2 * kUnitRoundoff * (1 + shared)
                                              : given_.error + 2 * kUnitRoundoff * lse;
  return p * error * up * hidden_norm_[r] / inputs_.temperature[i];
}

// What rounding the accumulator of a gradient once costs an element, relative to it. Baselines round
// theirs in the same chunks, and one realised rounding may be 0 by chance.
double Comparison::AccumulatorRoundoff() const {
  const kernel::DType dtype = contract_.accumulator.value_or(kernel::DType::kF32);
  return dtype == kernel::DType::kF32 ? 0 : oracle::RoundingOf(dtype).u;
}

// The spread of a row's logits as gradients see it. Where backward computes them again, or baselines
// set theirs against a given lse, p is exp(z' - lse) of two errors, and errs by exp of them: what
// kSuspect spreads make of it, of which one is left for the unit.
double Comparison::SpreadOfLogits(size_t row, const Simulated<float>& baseline) const {
  constexpr double kMost = 100;  // beyond fp32's exponent
  const double spread = baseline.spread[row].logits, threshold = HonestUnits::kSuspect;
  if (contract_.recompute_same_bits && given_.error == 0) return spread;
  return std::expm1(std::min(threshold * spread, kMost)) / threshold;
}

// What a row's probabilities are multiplied by.
double Comparison::UpstreamOf(size_t row) const {
  const auto i = static_cast<size_t>(places_.rows[row]);
  return (std::abs(inputs_.g[i]) + std::abs(inputs_.k[i])) / inputs_.temperature[i];
}

// What a sum of so many terms may lose where results below 2^-126 are 0: products, or probabilities
// before they are multiplied by at most `factor`.
double Comparison::Flushed(int64_t terms, double factor) const {
  if (contract_.flush == oracle::Flush::kNone) return 0;
  return kLeastNormal * static_cast<double>(terms + 1) * (1 + factor);
}

// What planes lose of so many d_logits, each times `operand`: half of the least subnormal of bf16, at
// random, or what is flushed (ERROR-BUDGET.md, "Planes").
double Comparison::LostInPlanes(int64_t terms, double operand) const {
  if (contract_.input_planes == 1 || problem_.hidden.dtype != kernel::DType::kF32) return 0;
  const double lost = contract_.flush == oracle::Flush::kOperands ? 0x1p-124 : 0x1p-134;
  return lost * std::sqrt(static_cast<double>(terms)) * operand;
}

// What an exponential below 2^-126 may be wrong by: all of it where it may be flushed, else half of the
// least subnormal.
double Comparison::LeastProbability() const {
  const bool kept = contract_.exp_gradual && contract_.flush == oracle::Flush::kNone;
  return kept ? kLeastSubnormal / 2 : kLeastNormal;
}

// In units of u: what is rounded in forming the entropy.
double Comparison::SumOfEntropy(const RowForward<float>& forward) const {
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double shift = std::abs(lse - std::abs(static_cast<double>(forward.log_s)));
  const double sum = 1 + std::abs(static_cast<double>(forward.entropy));
  return contract_.plain_entropy ? sum + shift + lse : sum;
}

double Comparison::ForwardFloor(Output output, const RowForward<float>& forward) const {
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double log_s = std::abs(static_cast<double>(forward.log_s));
  const double shift = std::abs(lse - log_s);  // |m| / T, as far as it matters
  const double logprob = std::abs(static_cast<double>(forward.logprob));
  const Rough rough = RoughOf(forward);
  const double log_rough = (rough.log + rough.exponential) / kShare;
  if (output == Output::kLse) return kUnitRoundoff * (shift + lse + log_rough);
  const bool logprob_is_plain = contract_.plain_logprob;
  if (output == Output::kLogprob) {
    return kUnitRoundoff * (1 + logprob + (logprob_is_plain ? shift + lse : 0) + log_rough);
  }
  const double sum = SumOfEntropy(forward);
  return kUnitRoundoff * (sum + log_rough + rough.probability * sum / kShare);
}

// The expected error of a unit through its logits.
double Comparison::Expected(Output output, size_t at, const Simulated<float>& baseline) const {
  const auto of_row = [&](size_t r, double norm, double by_g, double by_k) {
    const auto i = static_cast<size_t>(places_.rows[r]);
    const double up = std::abs(inputs_.g[i]) * by_g + std::abs(inputs_.k[i]) * by_k;
    return SpreadOfLogits(r, baseline) * up * norm / inputs_.temperature[i];
  };
  if (output != Output::kGradWeight) {
    const RowSpread& spread = baseline.spread[at];
    if (output == Output::kLse) return spread.logits * spread.lse;
    if (output == Output::kEntropy) return spread.logits * spread.entropy;
    if (output == Output::kGradHidden) {
      return of_row(at, LargestNorm(at, baseline), spread.by_g, spread.by_k);
    }
    const double p = std::exp(std::min(0.0, static_cast<double>(baseline.forward[at].logprob)));
    const double rest = std::max(0.0, spread.lse * spread.lse - p * p);
    return spread.logits * std::sqrt((contract_.label_logit_separate ? 1 : (1 - p) * (1 - p)) + rest);
  }
  double square = 0;
  for (size_t r = 0; r < places_.rows.size(); ++r) {
    const double p = static_cast<double>(baseline.probability[r * places_.weight_rows.size() + at]);
    if (p == 0) continue;
    const RowSpread& spread = baseline.spread[r];
    const double t = std::abs(std::log(p) + static_cast<double>(baseline.forward[r].entropy));
    // Over a given forward pass all other columns have 1 - p together beside the label's.
    const bool label = inputs_.label[static_cast<size_t>(places_.rows[r])] == places_.weight_rows[at];
    // A logprob of a logit computed apart has not the label's logit of backward.
    const bool given = given_.labels && label, apart = given && contract_.label_logit_separate;
    const double rest = apart   ? 1
                        : given ? (1 - p) * (1 - p)
                                : std::max(0.0, spread.lse * spread.lse - p * p);
    const double kept = contract_.recompute_same_bits && !apart ? 1 - p : 1;
    const double dp = p * std::sqrt(kept * kept + rest);
    const double e = of_row(r, hidden_norm_[r], dp, dp * (1 + t) + p * spread.entropy);
    square += e * e;
  }
  return std::sqrt(square);
}

// What the contract declares beyond an ordinary library's functions, in u: no baseline simulates it,
// and an honest kernel may err so in every row alike. A logarithm at the defaults is within the floor:
// 4 + 6 l < 8 (1 + l).
Comparison::Rough Comparison::RoughOf(const RowForward<float>& forward) const {
  const oracle::Contract ordinary;
  const auto beyond = [](double declared, double usual) { return declared > usual ? declared : 0; };
  const double log_s = std::abs(static_cast<double>(forward.log_s));
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double entropy = std::abs(static_cast<double>(forward.entropy));
  Rough rough;
  rough.log = beyond(contract_.log_error_absolute, ordinary.log_error_absolute) +
              beyond(contract_.log_error_relative, ordinary.log_error_relative) * log_s;
  rough.exponential =
      beyond(contract_.exp_error, ordinary.exp_error) +
      beyond(contract_.argument_roundings, ordinary.argument_roundings) * (1 + entropy) +
      beyond(contract_.scale_roundings, ordinary.scale_roundings) * (lse + log_s);
  // A maximum that is rounded moves every exponential by as much as s, until s is rounded to 16 bits.
  if (contract_.softmax_sum.For(problem_.hidden.dtype) && contract_.shift != oracle::Shift::kExactMax) {
    rough.exponential += std::abs(lse - log_s);
  }
  rough.probability = 2 * rough.exponential + beyond(contract_.division_error, ordinary.division_error);
  return rough;
}

}  // namespace plumbline::fuzz
