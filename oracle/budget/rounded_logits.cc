// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/rounded_logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "oracle/defect.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond the rounding of a quotient, or of a sum, in fp64.
constexpr double kSlack = 0x1p-50;

struct Interval {
  double low = 0, high = 0;
};
Interval Around(double x, double error) {
  if (error == 0) return {x, x};
  return {x - error - std::fabs(x - error) * kSlack, x + error + std::fabs(x + error) * kSlack};
}

Interval Over(const Interval& z, double temperature, double relative) {
  const double low = z.low / temperature, high = z.high / temperature;
  const double more = relative + (temperature == 1 ? 0 : kSlack);
  return {low - more * std::fabs(low), high + more * std::fabs(high)};
}

// Which of the interval's ends, which round to neighbours, the exact number rounds to.
// `compare(t)` is the sign of the exact number minus t.
template <class Compare>
double Decide(DType dtype, const Interval& of, const Compare& compare) {
  const double low = RoundTo(dtype, of.low), high = RoundTo(dtype, of.high);
  if (low == high || !std::isfinite(low) || !std::isfinite(high)) return low;
  const double tie = (low + high) / 2;  // exact
  const int sign = compare(tie);
  return sign == 0 ? RoundTo(dtype, tie) : sign < 0 ? low : high;
}

int SignOf(double x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); }

// The most that any number of the interval is off from `value` once it is rounded.
double Farthest(DType dtype, double value, const Interval& of, bool flush) {
  const double low = RoundTo(dtype, of.low), high = RoundTo(dtype, of.high);
  if (!std::isfinite(low) || !std::isfinite(high)) return kInfinity;
  if constexpr (kPlanted == OracleDefect::kNoTies) return 0;
  double farthest = std::max(value - low, high - value);
  // What is flushed becomes 0. fp16 is not: its subnormals are normal numbers in fp32.
  const bool subnormal = of.low < 0x1p-126 && of.high > -0x1p-126 && (of.low != 0 || of.high != 0);
  if (flush && dtype == DType::kBf16 && subnormal) farthest += 0x1p-126;
  return farthest;
}

}  // namespace

double RoundTo(DType dtype, double x) {
  const int bits = dtype == DType::kBf16 ? 8 : dtype == DType::kF16 ? 11 : 24;
  const int least = dtype == DType::kF16 ? -14 : -126;  // exponent of the least normal number
  if (!std::isfinite(x)) return x;
  if (std::fabs(x) < std::ldexp(1.0, least)) {
    // Adding and subtracting rounds to a multiple of the last place of 1.5 * 2^52 units.
    const double shift = std::ldexp(1.5, 52 + least - bits + 1);
    return std::copysign((x + shift) - shift, x);
  }
  const int dropped = 53 - bits;
  auto pattern = std::bit_cast<uint64_t>(x);
  pattern += ((uint64_t{1} << (dropped - 1)) - 1) + ((pattern >> dropped) & 1);
  const auto rounded = std::bit_cast<double>(pattern & ~((uint64_t{1} << dropped) - 1));
  return std::fabs(rounded) > RoundingOf(dtype).largest ? std::copysign(kInfinity, x) : rounded;
}

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

RoundedLogit RoundLogit(const Arithmetic& target, double temperature, const KnownLogit& logit,
                        const std::function<ExactSum()>& exact) {
  std::optional<ExactSum> sum;
  const auto exactly = [&]() -> const ExactSum& {
    if (!sum) sum = exact();
    return *sum;
  };
  // An interval about the exact logit within which only neighbours lie.
  const auto near = [&](DType dtype, double scale) {
    Interval of = Around(logit.z, logit.error);
    const auto rounded = [&](double z) { return RoundTo(dtype, z / scale); };
    if (logit.error > 0 && rounded(of.low) != rounded(of.high)) {
      const double nearest = exactly().Nearest();
      of = Around(nearest, std::fabs(nearest) * kSlack);
    }
    return of;
  };
  const auto minus = [&](double x) {
    ExactSum difference = exactly();
    difference.Add(-x);
    return SignOf(difference.Nearest());
  };
  const bool flush = target.flush;
  RoundedLogit rounded;
  Interval reach = Around(logit.z, logit.error + logit.bound);
  if (target.logits) {
    const DType dtype = *target.logits;
    rounded.value = Decide(dtype, near(dtype, 1), minus);
    rounded.bound = Farthest(dtype, rounded.value, reach, flush);
    if (!target.scaled_logits || !std::isfinite(rounded.bound)) return rounded;
  }
  const DType dtype = *target.scaled_logits;
  if (target.logits) {
    const double z = rounded.value;
    reach = {z - rounded.bound, z + rounded.bound};
    rounded.value = Decide(dtype, Over({z, z}, temperature, 0),
                           [&](double x) { return SignOf(z - x * temperature); });
  } else {
    rounded.value = Decide(dtype, Over(near(dtype, temperature), temperature, 0),
                           [&](double x) { return minus(x * temperature); });
  }
  rounded.bound =
      Farthest(dtype, rounded.value, Over(reach, temperature, target.scale_roundings), flush);
  return rounded;
}

}  // namespace plumbline::oracle
