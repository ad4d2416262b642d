// SPDX-License-Identifier: Apache-2.0

#include "bench/timing/fastest.h"

#include <algorithm>
#include <numeric>

#include "bench/timing/median.h"

namespace plumbline::bench {

size_t Fastest(size_t candidates, const Round& round) {
  std::vector<size_t> order(candidates);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::vector<double>> times(candidates);
  const auto median = [&](size_t candidate) { return Median(times[candidate]); };
  round(order);
  for (int i = 0; i < kRounds; ++i) {
    if (i == kRoundsOfAll) {
      const double far = kFar * median(std::ranges::min(order, {}, median));
      std::erase_if(order, [&](size_t candidate) { return median(candidate) > far; });
      if (order.size() == 1) break;
    }
    std::ranges::reverse(order);
    const std::vector<double> measured = round(order);
    for (size_t k = 0; k < order.size(); ++k) times[order[k]].push_back(measured[k]);
  }
  return std::ranges::min(order, {}, median);
}

}  // namespace plumbline::bench
