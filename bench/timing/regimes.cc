// SPDX-License-Identifier: Apache-2.0

#include "bench/timing/regimes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/cuda/events.h"
#include "bench/cuda/memory.h"
#include "bench/timing/median.h"

namespace plumbline::bench {
namespace {

using Call = std::function<void()>;

constexpr int kLeastRows = 6, kLeastBursts = 20, kMostMeasured = 1000, kLeastCalls = 3;

// Milliseconds of `calls` calls in sequence; `meanwhile` runs once they are enqueued.
double Time(const Call& call, int calls, cudaStream_t stream, const Call& meanwhile = [] {}) {
  Events events(2);
  events.Record(0, stream);
  for (int i = 0; i < calls; ++i) call();
  events.Record(1, stream);
  meanwhile();
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return events.Between(0, 1);
}

struct Kind {
  const Call& call;
  double ms = 0;  // of a call, as far as is known
  std::vector<double> times = {}, joules = {}, clocks = {};
};

int CallsIn(double ms, const Kind& kind) {
  return std::max(kLeastCalls, static_cast<int>(std::ceil(ms / kind.ms)));
}

void Row(const RowLengths& lengths, const EnergyMeter* meter, cudaStream_t stream, Kind* kind) {
  (void)Time(kind->call, CallsIn(lengths.settle_ms, *kind), stream);
  const int calls = CallsIn(lengths.measured_ms, *kind);
  const double before = meter != nullptr ? meter->Joules() : 0;
  const double ms = Time(kind->call, calls, stream, [&] {
    if (meter == nullptr) return;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(kind->ms * calls / 2));
    kind->clocks.push_back(meter->Clock());
  });
  if (meter != nullptr) kind->joules.push_back((meter->Joules() - before) / calls);
  kind->ms = ms / calls;
  kind->times.push_back(kind->ms);
}

void Demand(const char* what, int number, int least) {
  if (number < least || number > kMostMeasured) {
    throw std::logic_error(std::string(what) + ": " + std::to_string(number) + ", at least " +
                           std::to_string(least) + " are needed");
  }
}

}  // namespace

RowTimes TimeRows(const Call& a, const Call& b, const RowLengths& lengths, const EnergyMeter* meter,
                  cudaStream_t stream) {
  Demand("TimeRows: rows", lengths.rows, kLeastRows);
  Kind of_a = {a}, of_b = {b};
  for (Kind* kind : {&of_a, &of_b}) {
    (void)Time(kind->call, 1, stream);  // loads code
    kind->ms = std::max(Time(kind->call, 1, stream), 1e-3);
  }
  for (int i = 0; i < lengths.rows; ++i) {
    const bool a_is_first = i % 2 == 0;
    Row(lengths, meter, stream, a_is_first ? &of_a : &of_b);
    Row(lengths, meter, stream, a_is_first ? &of_b : &of_a);
  }
  RowTimes rows;
  rows.times = Paired(of_a.times, of_b.times);
  if (meter != nullptr) {
    rows.joules_a = Median(of_a.joules);
    rows.joules_b = Median(of_b.joules);
    rows.clock_a = Median(of_a.clocks);
    rows.clock_b = Median(of_b.clocks);
  }
  return rows;
}

PairedTimes TimeBursts(const Call& a, const Call& b, int pairs, double rest_ms, cudaStream_t stream) {
  Demand("TimeBursts: pairs", pairs, kLeastBursts);
  const std::chrono::duration<double, std::milli> rest(rest_ms);
  const auto single = [&](const Call& call) {
    std::this_thread::sleep_for(rest);
    return Time(call, 1, stream);
  };
  (void)Time(a, 1, stream);
  (void)Time(b, 1, stream);
  std::vector<double> times_a, times_b;
  for (int i = 0; i < pairs; ++i) {
    if (i % 2 == 0) times_a.push_back(single(a));
    times_b.push_back(single(b));
    if (i % 2 != 0) times_a.push_back(single(a));
  }
  return Paired(times_a, times_b);
}

}  // namespace plumbline::bench
