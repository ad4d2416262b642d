// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/assurance.h"

#include <algorithm>
#include <cmath>

namespace plumbline::fuzz {

NewCellChance GoodTuring(int64_t n, int64_t once, int64_t twice) {
  if (n == 0) return {};
  const auto cases = static_cast<double>(n), rare = static_cast<double>(once);
  const double estimate = rare / cases;
  const double error = std::sqrt(rare * (1 - estimate) + static_cast<double>(twice)) / cases;
  constexpr double kOneSided95 = 1.645;
  const double limit = std::max(estimate + kOneSided95 * error, 3 / cases);
  return {.estimate = estimate, .at_most = std::min(limit, 1.0)};
}

double RuleOfThree(int64_t n) { return n == 0 ? 1 : std::min(1.0, 3 / static_cast<double>(n)); }

}  // namespace plumbline::fuzz
