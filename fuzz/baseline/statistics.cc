// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "fuzz/base/median.h"

namespace plumbline::fuzz {
namespace {

double RootMeanSquare(double sum, size_t count) { return std::sqrt(sum / static_cast<double>(count)); }

}  // namespace

double HonestUnits::Ratio() const {
  return std::max({rms, median, largest}) / (TooFew() ? kFewerUnits : 1);
}

double HonestUnits::Divisor() const {
  if (TooFew()) return kFewerUnits;
  const double exponent = static_cast<double>(kLeastUnits) / std::max(effective, 1.0) - 1;
  return std::clamp(std::pow(kSuspect, exponent), 1.0, kFewerUnits);
}

double HonestUnits::Judged() const {
  return TooFew() ? Ratio() : std::max(median, std::max(rms, largest) / Divisor());
}

HonestUnits Compare(const Units& units) {
  const size_t count = units.error.size();
  HonestUnits out;
  out.units = static_cast<int64_t>(count);
  if (count == 0) return out;
  std::vector<double> scale(count, 0);
  double honest_largest = 0;
  for (size_t k = 0; k < units.baseline.size(); ++k) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const double square =
          units.baseline[k][i] * units.baseline[k][i] + units.floor[i] * units.floor[i];
      sum += square;
      scale[i] = std::max(scale[i], square);
      honest_largest = std::max(honest_largest, square);
    }
    if (const double rms = RootMeanSquare(sum, count); rms > out.honest) {
      out.honest = rms;
      out.baseline = k;
    }
  }
  double squares = 0, fourths = 0;
  for (const double square : scale) {
    squares += square;
    fourths += square * square;
  }
  out.effective = fourths > 0 ? squares * squares / fourths : 0;
  double sum = 0, largest = 0;
  out.ratios.resize(count);
  for (size_t i = 0; i < count; ++i) {
    sum += units.error[i] * units.error[i];
    largest = std::max(largest, units.error[i]);
    out.ratios[i] = units.error[i] == 0 ? 0 : units.error[i] / std::sqrt(scale[i]);
  }
  out.found = RootMeanSquare(sum, count);
  out.rms = out.found == 0 ? 0 : out.found / out.honest;
  out.median = Median(out.ratios);
  out.largest = largest == 0 ? 0 : largest / std::sqrt(honest_largest);
  return out;
}

double BeyondRounding(double got, double exact, kernel::DType dtype) {
  const int digits = dtype == kernel::DType::kBf16 ? 8 : dtype == kernel::DType::kF16 ? 11 : 24;
  const int least = dtype == kernel::DType::kF16 ? -14 : -126;
  // By the bits of doubles, since std::ilogb and std::ldexp were an eighth of counting false alarms.
  constexpr int kBias = 1023, kFraction = 52;
  const auto field = static_cast<int>(std::bit_cast<uint64_t>(exact) >> kFraction & 0x7ff);
  const int exponent = std::max(field - kBias, least);
  const auto half_unit =
      std::bit_cast<double>(static_cast<uint64_t>(exponent - digits + kBias) << kFraction);
  const double beyond = std::abs(got - exact) - half_unit;
  return beyond < 0 ? 0 : beyond;  // a NaN stays one
}

}  // namespace plumbline::fuzz
