// SPDX-License-Identifier: Apache-2.0
//
// Measures two pieces of device work in turn on one stream: a, b, then b, a, then a, b, … so that
// neither always comes second. Clocks and power drift over seconds, which a pair does not see, so the
// ratio is taken of each pair. The result is the median of the ratios, with an interval that holds the
// true median 95 times in 100, whatever their distribution. It is the median of the pairs of this
// process, not of other runs or machines.

#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace plumbline::bench {

struct PairedTimes {
  double a = 0, b = 0;                   // ms, medians
  double ratio = 0;                      // median of a/b
  double ratio_low = 0, ratio_high = 0;  // its 95 % interval
  int pairs = 0;
};

// Returns the figures of milliseconds that were measured in pairs: as many of a as of b, more than 5.
PairedTimes Paired(const std::vector<double>& a, const std::vector<double>& b);

// Both enqueue on `stream` and throw on an error. At least 20 `pairs` are measured, after warming up
// for a quarter of a second (at least two pairs). Nothing waits for the device in between, so the
// host's time has no effect unless it is slower than the device.
PairedTimes TimePairs(const std::function<void()>& a, const std::function<void()>& b, int pairs,
                      cudaStream_t stream);

}  // namespace plumbline::bench
