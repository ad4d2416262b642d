// SPDX-License-Identifier: Apache-2.0
//
// Measures two pieces of device work in the two regimes that a GPU has (bench/NOTES.md, "Two regimes").
//
//   sustained   rows of one kind alone, long enough that power and clock settle: at the power limit,
//               energy decides
//   burst       single calls after rest, with power and clock in hand: latency and bytes decide
//
// Pairs of both (bench/timing/paired_timing.h) share one clock, which either kind sets for the other.

#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "bench/cuda/energy.h"
#include "bench/timing/paired_timing.h"

namespace plumbline::bench {

struct RowTimes {
  PairedTimes times;  // of a call: medians over the rows, and ratios of a row of a to one of b
  // Medians over the rows of either kind; 0 without a meter.
  double joules_a = 0, joules_b = 0;  // a call
  double clock_a = 0, clock_b = 0;    // MHz, in the middle of a row
};

struct RowLengths {
  int rows = 6;  // of either kind: the least that have a 95 % interval
  double settle_ms = 400;
  double measured_ms = 1000;  // ten times the longest period of the meter
};

// A row is settle_ms of calls that do not count, then measured_ms of calls that do, at least three. The
// rows go a, b, b, a, a, b, …, so that neither kind always comes second. The meter may be null.
RowTimes TimeRows(const std::function<void()>& a, const std::function<void()>& b,
                  const RowLengths& lengths, const EnergyMeter* meter, cudaStream_t stream);

// `pairs` single calls of each (at least 20), the device idle for rest_ms before every one. The times
// include the latency of the first launch.
PairedTimes TimeBursts(const std::function<void()>& a, const std::function<void()>& b, int pairs,
                       double rest_ms, cudaStream_t stream);

}  // namespace plumbline::bench
