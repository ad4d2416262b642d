// SPDX-License-Identifier: Apache-2.0

#include "bench/timing/paired_timing.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda/events.h"
#include "bench/cuda/memory.h"
#include "bench/timing/median.h"

namespace plumbline::bench {
namespace {

constexpr double kWarmUp = 250;  // ms
constexpr int kMostWarmUps = 200, kLeastPairs = 20, kMostPairs = 1000;

}  // namespace

PairedTimes Paired(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios(a.size());
  std::ranges::transform(a, b, ratios.begin(), std::divides());
  std::ranges::sort(ratios);
  const int pairs = static_cast<int>(ratios.size());
  const auto rank = static_cast<size_t>(MedianRank(pairs));
  return {Median(a), Median(b), Median(ratios), ratios[rank - 1], ratios[ratios.size() - rank], pairs};
}

PairedTimes TimePairs(const std::function<void()>& a, const std::function<void()>& b, int pairs,
                      cudaStream_t stream) {
  if (pairs < kLeastPairs || pairs > kMostPairs)
    throw std::logic_error("TimePairs: " + std::to_string(pairs) + " pairs");
  const auto wait = [&] { Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); };
  a();
  b();
  wait();
  Events first(2);
  first.Record(0, stream);
  a();
  b();
  first.Record(1, stream);
  wait();
  const double pair = std::max(first.Between(0, 1), 1e-3);
  for (int i = 1; i < std::min(kMostWarmUps, static_cast<int>(std::ceil(kWarmUp / pair))); ++i) {
    a();
    b();
  }

  const auto n = static_cast<size_t>(pairs);
  Events events(2 * n + 1);
  events.Record(0, stream);
  const auto a_is_first = [](size_t i) { return i % 2 == 0; };
  for (size_t i = 0; i < n; ++i) {
    a_is_first(i) ? a() : b();
    events.Record(2 * i + 1, stream);
    a_is_first(i) ? b() : a();
    events.Record(2 * i + 2, stream);
  }
  wait();
  std::vector<double> times_a(n), times_b(n);
  for (size_t i = 0; i < n; ++i) {
    times_a[i] = events.Between(2 * i, 2 * i + 1);
    times_b[i] = events.Between(2 * i + 1, 2 * i + 2);
    if (!a_is_first(i)) std::swap(times_a[i], times_b[i]);
  }
  return Paired(times_a, times_b);
}

}  // namespace plumbline::bench
