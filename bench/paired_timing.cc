// SPDX-License-Identifier: Apache-2.0

#include "bench/paired_timing.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "bench/device_memory.h"

namespace plumbline::bench {
namespace {

constexpr double kWarmUp = 250;  // ms
constexpr int kMostWarmUps = 200, kLeastPairs = 20, kMostPairs = 1000;

class Events {
 public:
  explicit Events(size_t count) : events_(count) {
    for (cudaEvent_t& event : events_) Check(cudaEventCreate(&event), "cudaEventCreate");
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }
  void Record(size_t i, cudaStream_t stream) {
    Check(cudaEventRecord(events_[i], stream), "cudaEventRecord");
  }
  // After the stream has been waited for.
  double Between(size_t from, size_t to) const {
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, events_[from], events_[to]), "cudaEventElapsedTime");
    return ms;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
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
  for (size_t i = 0; i < n; ++i) {
    a();
    events.Record(2 * i + 1, stream);
    b();
    events.Record(2 * i + 2, stream);
  }
  wait();
  std::vector<double> times_a(n), times_b(n), ratios(n);
  for (size_t i = 0; i < n; ++i) {
    times_a[i] = events.Between(2 * i, 2 * i + 1);
    times_b[i] = events.Between(2 * i + 1, 2 * i + 2);
    ratios[i] = times_a[i] / times_b[i];
  }
  std::ranges::sort(ratios);
  const auto rank = static_cast<size_t>(MedianRank(pairs));
  return {Median(times_a), Median(times_b), Median(ratios), ratios[rank - 1], ratios[n - rank], pairs};
}

}  // namespace plumbline::bench
