// SPDX-License-Identifier: Apache-2.0
//
// Two pieces of device work, measured in turn on one stream: a, b, a, b, … Clocks and power drift over
// seconds, which a pair does not see; the ratio is taken of each pair, and what is said is the median
// of the ratios with an interval that holds the true median 95 times in 100, whatever their
// distribution.

#ifndef PLUMBLINE_BENCH_PAIRED_TIMING_H_
#define PLUMBLINE_BENCH_PAIRED_TIMING_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace plumbline::bench {

// Of n > 5 sorted values, the interval from the r-th least to the r-th largest holds the median of
// their distribution with probability 1 − 2 P(X < r), X binomial(n, 1/2): the largest r for which that
// is at least 95 % (W. J. Conover, Practical Nonparametric Statistics, 3.2). n up to 1000.
constexpr int MedianRank(int n) {
  double chance = 1;  // of X = r, from r = 0
  for (int i = 0; i < n; ++i) chance /= 2;
  int r = 0;
  for (double below = chance; below <= 0.025; below += chance) {
    ++r;
    chance = chance * (n - r + 1) / r;
  }
  return r;
}
// From printed tables of that interval.
static_assert(MedianRank(6) == 1 && MedianRank(10) == 2 && MedianRank(15) == 4 && MedianRank(20) == 6 &&
              MedianRank(25) == 8 && MedianRank(30) == 10 && MedianRank(50) == 18);

double Median(std::vector<double> values);

struct PairedTimes {
  double a = 0, b = 0;                   // ms, medians
  double ratio = 0;                      // median of a/b
  double ratio_low = 0, ratio_high = 0;  // its 95 % interval
  int pairs = 0;
};

// Both enqueue on `stream` and throw on an error. `pairs` of at least 20, after warming up for a
// quarter of a second (two pairs at least). Nothing waits for the device in between, so what the host
// does is not seen unless it is slower than the device.
PairedTimes TimePairs(const std::function<void()>& a, const std::function<void()>& b, int pairs,
                      cudaStream_t stream);

}  // namespace plumbline::bench

#endif  // PLUMBLINE_BENCH_PAIRED_TIMING_H_
