// SPDX-License-Identifier: Apache-2.0

#include "bench/host/random_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace plumbline::bench {
namespace {

std::span<const float> Row(const fuzz::HostTensor& tensor, int64_t row) {
  const auto width = static_cast<size_t>(tensor.shape[1]);
  return {reinterpret_cast<const float*>(tensor.bytes.data()) + static_cast<size_t>(row) * width,
          width};
}

double Correlation(std::span<const float> x, std::span<const float> y) {
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += double{x[i]} * x[i];
    yy += double{y[i]} * y[i];
    xy += double{x[i]} * y[i];
  }
  return xy / std::sqrt(xx * yy);
}

// A row of weight that repeats one of hidden has a logit far above all others: a softmax of one
// element, which no benchmark is about. 256 elements correlate by 1/16 in the mean; 0.4 is more than
// six of those, over some 4 000 pairs.
TEST(RandomProblem, NoRowRepeatsAnother) {
  const fuzz::OwnedProblem p = RandomProblem({"", kernel::DType::kF32, 64, 64, 256, false}, false);
  const fuzz::HostTensor &hidden = p.hidden, &weight = p.weight;
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 64; ++j)
      EXPECT_LT(std::abs(Correlation(Row(hidden, i), Row(weight, j))), 0.4) << i << ", " << j;
    if (i > 0) {
      EXPECT_LT(std::abs(Correlation(Row(hidden, i), Row(hidden, i - 1))), 0.4) << i;
      EXPECT_LT(std::abs(Correlation(Row(weight, i), Row(weight, i - 1))), 0.4) << i;
    }
  }
}

TEST(RandomProblem, ValuesSpreadOverTheirRange) {
  const fuzz::OwnedProblem p = RandomProblem({"", kernel::DType::kF32, 64, 64, 256, false}, false);
  const float* const hidden = reinterpret_cast<const float*>(p.hidden.bytes.data());
  const auto [low, high] = std::minmax_element(hidden, hidden + 64 * 256);
  EXPECT_GE(*low, -1.f);
  EXPECT_LT(*low, -0.99f);
  EXPECT_LE(*high, 1.f);
  EXPECT_GT(*high, 0.99f);
}

}  // namespace
}  // namespace plumbline::bench
