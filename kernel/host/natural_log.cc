// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/natural_log.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace plumbline::kernel::host {

float NaturalLog(float s) {
  if (!(s < std::numeric_limits<float>::infinity())) return s;
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
  // Every positive float is a normal double.
  const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(s));
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double f = std::bit_cast<double>((bits & 0x000f'ffff'ffff'ffff) | 0x3ff0'0000'0000'0000);
  if (f >= kSqrt2) {
    f *= 0.5;
    ++exponent;
  }
  const double w = (f - 1) / (f + 1);
  const double w2 = w * w;
  double series = 0;
  for (int k = 21; k >= 3; k -= 2) series = (series + 1.0 / k) * w2;
  const double log_f = 2 * (w + w * series);
  return static_cast<float>(static_cast<double>(exponent) * kLn2 + log_f);
}

}  // namespace plumbline::kernel::host
