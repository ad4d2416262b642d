// SPDX-License-Identifier: Apache-2.0
//
// The median of measurements, and its confidence interval; bench/report/median_interval.py has the
// same.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace plumbline::bench {

// Returns the rank r of a 95 % interval for the median, for 5 < n <= 1000 values. The interval from the
// r-th least to the r-th largest value holds the median of their distribution with probability 1 − 2
// P(X < r), X binomial(n, 1/2); r is the largest for which that is at least 95 % (W. J. Conover,
// Practical Nonparametric Statistics, 3.2).
constexpr int MedianRank(int n) {
  double chance = 1;  // P(X = r), from r = 0
  for (int i = 0; i < n; ++i) chance /= 2;
  int r = 0;
  for (double below = chance; below <= 0.025; below += chance) {
    ++r;
    chance = chance * (n - r + 1) / r;
  }
  return r;
}
// These values are from printed tables of that interval.
static_assert(MedianRank(6) == 1 && MedianRank(10) == 2 && MedianRank(15) == 4 && MedianRank(20) == 6 &&
              MedianRank(25) == 8 && MedianRank(30) == 10 && MedianRank(50) == 18);

// Returns the median of at least one value.
inline double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace plumbline::bench
