// SPDX-License-Identifier: Apache-2.0
//
// What honest kernels' logits differ by in a row, and what outputs make of it to first order.

#include <algorithm>
#include <cmath>
#include <span>

#include "fuzz/baseline/simulate.h"
#include "oracle/numeric/threads.h"

namespace plumbline::fuzz {

namespace {

// The root mean square over the vocabulary of what two sets of logits of a row differ by, in units of
// ln p. With `weighted`, its forward of the row, no less than the same by its p squared: an error that
// grows with the logit is the largest logit's, which moves every other probability.
template <class Real>
double DifferenceOf(std::span<const Real> one, std::span<const Real> other, double temperature,
                    const RowForward<Real>* weighted) {
  double square = 0, weighted_square = 0, weights = 0;
  for (size_t c = 0; c < one.size(); ++c) {
    const double d = static_cast<double>(one[c]) - static_cast<double>(other[c]);
    square += d * d;
    if (weighted == nullptr) continue;
    const double log_p = static_cast<double>(one[c]) / temperature - static_cast<double>(weighted->lse);
    const double weight = std::exp(std::min(0.0, 2 * log_p));
    weighted_square += weight * d * d;
    weights += weight;
  }
  const double mean = square / static_cast<double>(one.size());
  return std::sqrt(std::max(mean, weights > 0 ? weighted_square / weights : 0)) / temperature;
}

// What one rounding of fp32 makes of a row's logits, / T: their root mean square, weighted by p
// squared, since columns of no probability move nothing. Two orders of a few terms may have the same
// bits.
template <class Real>
double RoundingOfLogits(std::span<const Real> z, double temperature) {
  const auto largest = static_cast<double>(*std::ranges::max_element(z));
  double square = 0, weights = 0;
  for (const Real each : z) {
    const auto x = static_cast<double>(each);
    const double weight = std::exp(2 * (x - largest) / temperature);
    square += weight * x * x;
    weights += weight;
  }
  return 0x1p-24 * std::sqrt(square / weights) / temperature;
}

}  // namespace

template <class Real>
std::vector<RowSpread> SpreadOf(Simulation<Real>* simulation, const std::vector<Baseline>& baselines,
                                const Simulated<Real>& first) {
  const auto v = static_cast<size_t>(simulation->columns());
  const SimulationOptions& options = simulation->options_;
  std::vector<RowSpread> spread(simulation->places_.rows.size());
  const std::vector<Real>& z = simulation->LogitsOf(baselines.front());
  for (const Baseline& baseline : baselines) {
    Baseline second = baseline;
    second.dot = baseline.Apart();
    // Parts that are rounded to 16 bits are the same bits in most orders. What they lose is what they
    // differ by from a sum that is not.
    const bool narrow = baseline.logit_sum.dtype != kernel::DType::kF32;
    if (narrow) second.logit_sum = {};
    const std::span<const Real> one = simulation->LogitsOf(baseline);
    const std::span<const Real> other = simulation->LogitsOf(second);
    for (size_t r = 0; r < spread.size(); ++r) {
      const auto temperature = static_cast<double>(simulation->ScalarsOf(r).temperature);
      const double difference =
          DifferenceOf(one.subspan(r * v, v), other.subspan(r * v, v), temperature,
                       narrow && !simulation->given() ? &first.forward[r] : nullptr);
      spread[r].logits = std::max(spread[r].logits, difference);
    }
  }
  oracle::ParallelRanges(options.threads, simulation->rows(), [&](int, int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      const double rounding =
          RoundingOfLogits(std::span<const Real>(z).subspan(r * v, v),
                           static_cast<double>(simulation->ScalarsOf(r).temperature));
      spread[r].logits = std::max(spread[r].logits, rounding);
    }
  });
  if (simulation->given()) {
    // The other columns' are bounded: sum p^2 by 1, and p |ln p + H| by 1/e + H.
    for (size_t r = 0; r < spread.size(); ++r) {
      spread[r].lse = 1;
      spread[r].entropy = 0.37 + options.given[r].entropy;
    }
    return spread;
  }
  const bool same = std::ranges::none_of(baselines, &Baseline::recomputed);
  oracle::ParallelRanges(options.threads, simulation->rows(), [&](int, int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      const auto lse = static_cast<double>(first.forward[r].lse);
      const auto entropy = static_cast<double>(first.forward[r].entropy);
      const auto temperature = static_cast<double>(simulation->ScalarsOf(r).temperature);
      // The sums of p^2 and p^3; with t = ln p + H, of p^2 t^2; with 1 + |t|, of its square times both.
      double sums[5] = {};
      for (size_t i = r * v; i < (r + 1) * v; ++i) {
        // Above 0 where the lse of large logits is rounded in fp32.
        const double log = std::min(0.0, static_cast<double>(z[i]) / temperature - lse);
        if (log < -50) continue;
        const double p = std::exp(log), t = log + entropy, wide = 1 + std::abs(t);
        sums[0] += p * p;
        sums[1] += p * p * p;
        sums[2] += p * p * t * t;
        sums[3] += p * p * wide * wide;
        sums[4] += p * p * p * wide * wide;
      }
      const double twice = same ? 2 : 0;
      RowSpread& to = spread[r];
      to.lse = std::sqrt(sums[0]);
      to.entropy = std::sqrt(sums[2]);
      to.by_g = std::sqrt(std::max(0.0, sums[0] * (1 + sums[0]) - twice * sums[1]));
      to.by_k =
          std::sqrt(std::max(0.0, sums[3] * (1 + sums[0]) - twice * sums[4])) + to.lse * to.entropy;
    }
  });
  return spread;
}

template std::vector<RowSpread> SpreadOf(Simulation<float>*, const std::vector<Baseline>&,
                                         const Simulated<float>&);
template std::vector<RowSpread> SpreadOf(Simulation<double>*, const std::vector<Baseline>&,
                                         const Simulated<double>&);

}  // namespace plumbline::fuzz
