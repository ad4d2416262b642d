// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/arbiter_schedule.h"

#include <algorithm>
#include <cmath>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

constexpr double kArbiterShare = 0.03;
constexpr double kCostPerSecond = 5e6;  // oracle/arbiter.h
constexpr double kCheapCost = 1e4;

int ClassOf(double cost) { return std::ilogb(std::max(cost, 1.0)); }

}  // namespace

bool ArbiterSchedule::Due(const std::string& regime, double cost, double seconds, double elapsed) {
  const std::lock_guard lock(mutex_);
  double& saved = saved_[{regime, ClassOf(cost)}];
  saved += kArbiterShare * seconds;
  if (saved >= cost / kCostPerSecond) return true;
  return cost <= kCheapCost && static_cast<double>(elements_) < per_second_ * elapsed;
}

void ArbiterSchedule::Paid(const std::string& regime, double cost, double seconds, int64_t elements) {
  const std::lock_guard lock(mutex_);
  saved_[{regime, ClassOf(cost)}] -= seconds;
  elements_ += elements;
}

bool DueInGate(uint64_t seed, double cost) {
  constexpr uint64_t kArbiter = 0x61726269;  // "arbi": keeps this choice apart from others by the seed
  constexpr double kAverage = 0.002 * kCostPerSecond, kMost = kCostPerSecond;
  const double chance = static_cast<double>(Mix(seed, kArbiter) >> 11) * 0x1p-53;
  return cost <= kMost && chance * cost < kAverage;
}

}  // namespace plumbline::fuzz
