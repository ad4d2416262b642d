// SPDX-License-Identifier: Apache-2.0
//
// Rows whose label has a logit of -inf, found from a problem's inputs alone.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::same_bits {

struct InfiniteLabel {
  int64_t row, label;
};

// A sum of products of fp32 numbers is finite in fp64, so it is infinite where a product is.
inline std::vector<InfiniteLabel> InfiniteLabels(const fuzz::OwnedProblem& p) {
  std::vector<InfiniteLabel> found;
  const int64_t size = p.hidden_size();
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = p.labels.GetInt(i);
    if (!p.IsClass(label)) continue;
    double logit = 0;
    for (int64_t d = 0; d < size; ++d) {
      logit += static_cast<double>(p.hidden.GetFloat(i * size + d)) *
               static_cast<double>(p.weight.GetFloat(label * size + d));
    }
    if (std::isinf(logit) && logit < 0) found.push_back({i, label});
  }
  return found;
}

}  // namespace plumbline::same_bits
