// SPDX-License-Identifier: Apache-2.0
//
// The rounding of one logit (oracle/budget/rounded_logits.h), as the host and a device's threads read
// it. The exact logit is asked for where fp64 does not tell.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernel/dtype.h"
#include "oracle/defect.h"

#ifdef __CUDACC__
#define PLUMBLINE_ANYWHERE __host__ __device__ inline
#else
#define PLUMBLINE_ANYWHERE inline
#endif

namespace plumbline::oracle {

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

// What a contract rounds, at one temperature. At least one of both is rounded.
struct LogitSteps {
  bool rounds_logits = false, rounds_scaled = false;
  kernel::DType logits = kernel::DType::kF32, scaled = kernel::DType::kF32;
  double temperature = 1, scale_roundings = 0;
  bool flush = false;
  double largest_partial = 0;

  // The domain of the contract (ERROR-BUDGET.md, "Unspecified"); abs_sum is S.
  PLUMBLINE_ANYWHERE bool Specified(double abs_sum) const {
    const double scaled_sum = temperature < 1 ? abs_sum / temperature : abs_sum;
    return scaled_sum <= 0x1p126 && abs_sum <= largest_partial / 2 && temperature >= 0x1p-100 &&
           temperature <= 0x1p100;
  }
};

namespace rounding {

// Beyond the rounding of a quotient, or of a sum, in fp64.
constexpr double kSlack = 0x1p-50;

PLUMBLINE_ANYWHERE double Largest(kernel::DType dtype) {
  return dtype == kernel::DType::kBf16  ? 0x1.fep127
         : dtype == kernel::DType::kF16 ? 65504.0
                                        : 0x1.fffffep127;
}

}  // namespace rounding

// x rounded to nearest, ties to even; infinite beyond the largest of the dtype. fp32, too.
PLUMBLINE_ANYWHERE double RoundTo(kernel::DType dtype, double x) {
  const int bits = dtype == kernel::DType::kBf16 ? 8 : dtype == kernel::DType::kF16 ? 11 : 24;
  const int least = dtype == kernel::DType::kF16 ? -14 : -126;  // exponent of the least normal number
  if (!(std::fabs(x) <= 0x1.fffffffffffffp1023)) return x;      // infinite, or NaN
  if (std::fabs(x) < std::ldexp(1.0, least)) {
    // Adding and subtracting rounds to a multiple of the last place of 1.5 * 2^52 units.
    const double shift = std::ldexp(1.5, 52 + least - bits + 1);
    return std::copysign((x + shift) - shift, x);
  }
  const int dropped = 53 - bits;
  uint64_t pattern = 0;
  std::memcpy(&pattern, &x, sizeof x);
  pattern += ((uint64_t{1} << (dropped - 1)) - 1) + ((pattern >> dropped) & 1);
  pattern &= ~((uint64_t{1} << dropped) - 1);
  double rounded = 0;
  std::memcpy(&rounded, &pattern, sizeof rounded);
  return std::fabs(rounded) > rounding::Largest(dtype) ? std::copysign(HUGE_VAL, x) : rounded;
}

namespace rounding {

struct Interval {
  double low = 0, high = 0;
};

PLUMBLINE_ANYWHERE Interval Around(double x, double error) {
  if (error == 0) return {x, x};
  return {x - error - std::fabs(x - error) * kSlack, x + error + std::fabs(x + error) * kSlack};
}

PLUMBLINE_ANYWHERE Interval Over(const Interval& z, double temperature, double relative) {
  const double low = z.low / temperature, high = z.high / temperature;
  const double more = relative + (temperature == 1 ? 0 : kSlack);
  return {low - more * std::fabs(low), high + more * std::fabs(high)};
}

PLUMBLINE_ANYWHERE int SignOf(double x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); }

PLUMBLINE_ANYWHERE bool IsFinite(double x) { return std::fabs(x) < HUGE_VAL; }

// Which of the interval's ends, which round to neighbours, the exact number rounds to.
// `compare(t)` is the sign of the exact number minus t.
template <class Compare>
PLUMBLINE_ANYWHERE double Decide(kernel::DType dtype, const Interval& of, const Compare& compare) {
  const double low = RoundTo(dtype, of.low), high = RoundTo(dtype, of.high);
  if (low == high || !IsFinite(low) || !IsFinite(high)) return low;
  const double tie = (low + high) / 2;  // exact
  const int sign = compare(tie);
  return sign == 0 ? RoundTo(dtype, tie) : sign < 0 ? low : high;
}

// The most that any number of the interval is off from `value` once it is rounded.
PLUMBLINE_ANYWHERE double Farthest(kernel::DType dtype, double value, const Interval& of, bool flush) {
  const double low = RoundTo(dtype, of.low), high = RoundTo(dtype, of.high);
  if (!IsFinite(low) || !IsFinite(high)) return HUGE_VAL;
  if constexpr (kPlanted == OracleDefect::kNoTies) return 0;
  double farthest = std::fmax(value - low, high - value);
  // What is flushed becomes 0. fp16 is not: its subnormals are normal numbers in fp32.
  const bool subnormal = of.low < 0x1p-126 && of.high > -0x1p-126 && (of.low != 0 || of.high != 0);
  if (flush && dtype == kernel::DType::kBf16 && subnormal) farthest += 0x1p-126;
  return farthest;
}

// An interval about the exact logit within which only neighbours lie.
template <class Exact>
PLUMBLINE_ANYWHERE Interval Near(kernel::DType dtype, double scale, const KnownLogit& logit,
                                 Exact* exact) {
  const Interval of = Around(logit.z, logit.error);
  if (logit.error > 0 && RoundTo(dtype, of.low / scale) != RoundTo(dtype, of.high / scale)) {
    const double nearest = exact->Nearest();
    return Around(nearest, std::fabs(nearest) * kSlack);
  }
  return of;
}

}  // namespace rounding

// Exact has Nearest(), the exact logit within 2^-52 of itself, and SignLess(t), the sign of the exact
// logit less t. Both are asked only where z is too near a tie to tell.
template <class Exact>
PLUMBLINE_ANYWHERE RoundedLogit RoundLogitBy(const LogitSteps& steps, const KnownLogit& logit,
                                             Exact* exact) {
  const double temperature = steps.temperature;
  // A tie times T is exact in fp64, so a logit that is exact tells its side by itself.
  const auto less = [&](double x) {
    return logit.error == 0 ? rounding::SignOf(logit.z - x) : exact->SignLess(x);
  };
  RoundedLogit rounded;
  rounding::Interval reach = rounding::Around(logit.z, logit.error + logit.bound);
  if (steps.rounds_logits) {
    rounded.value = rounding::Decide(steps.logits, rounding::Near(steps.logits, 1, logit, exact), less);
    rounded.bound = rounding::Farthest(steps.logits, rounded.value, reach, steps.flush);
    if (!steps.rounds_scaled || !rounding::IsFinite(rounded.bound)) return rounded;
    const double z = rounded.value;
    reach = {z - rounded.bound, z + rounded.bound};
    rounded.value = rounding::Decide(steps.scaled, rounding::Over({z, z}, temperature, 0),
                                     [&](double x) { return rounding::SignOf(z - x * temperature); });
  } else {
    const rounding::Interval near = rounding::Near(steps.scaled, temperature, logit, exact);
    rounded.value = rounding::Decide(steps.scaled, rounding::Over(near, temperature, 0),
                                     [&](double x) { return less(x * temperature); });
  }
  rounded.bound =
      rounding::Farthest(steps.scaled, rounded.value,
                         rounding::Over(reach, temperature, steps.scale_roundings), steps.flush);
  return rounded;
}

}  // namespace plumbline::oracle
