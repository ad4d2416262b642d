// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

using Row = std::vector<double>;

OwnedProblem Expanded(const std::string& keys) {
  Recipe recipe;
  std::string error;
  EXPECT_TRUE(Parse("v1 " + keys, &recipe, &error)) << error;
  return Expand(recipe);
}

// Computes the logits of every row. Each must be the same in fp32 whatever the order of the sum.
std::vector<Row> ExactLogits(const OwnedProblem& p) {
  std::vector<Row> logits;
  for (int64_t i = 0; i < p.rows(); ++i) {
    Row row;
    for (int64_t v = 0; v < p.vocab(); ++v) {
      double exact = 0;
      float up = 0, down = 0;
      for (int64_t d = 0; d < p.hidden_size(); ++d) {
        const float a = p.hidden.GetFloat(i * p.hidden_size() + d);
        const float b = p.weight.GetFloat(v * p.hidden_size() + d);
        exact += static_cast<double>(a) * b;
        up += a * b;
        const int64_t e = p.hidden_size() - 1 - d;
        down += p.hidden.GetFloat(i * p.hidden_size() + e) * p.weight.GetFloat(v * p.hidden_size() + e);
      }
      EXPECT_EQ(exact, up);
      EXPECT_EQ(exact, down);
      row.push_back(exact);
    }
    logits.push_back(std::move(row));
  }
  return logits;
}

// Calls check(row of logits, its maximum) for all dtypes, a few seeds and both ends of the exponents.
template <class Check>
void ForEachRow(const std::string& keys, int low, int high, Check check) {
  for (const char* dtype : {"bf16", "fp16", "fp32"}) {
    for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
      for (const int exp : {low, high}) {
        const std::string line = "n=2 v=337 h=7 dtype=" + std::string(dtype) + " seed=" + seed +
                                 " exp=" + std::to_string(exp) + " " + keys;
        SCOPED_TRACE(line);
        for (const Row& row : ExactLogits(Expanded(line))) {
          check(row, *std::max_element(row.begin(), row.end()), exp);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

double LargestOf(const Row& row, int64_t tile, int64_t number) {
  const auto begin = row.begin() + tile * number;
  return *std::max_element(begin, begin + std::min<int64_t>(tile, row.end() - begin));
}

// Fails if a tile gains nothing, or maxima run the other way.
TEST(ExpandLogitsTest, RisingAndFallingMaxima) {
  ForEachRow("values=rising", -2, 5, [](const Row& row, double, int) {
    for (int64_t t = 1; t < 6; ++t) EXPECT_GT(LargestOf(row, 64, t), LargestOf(row, 64, t - 1));
  });
  ForEachRow("values=falling", -2, 5, [](const Row& row, double largest, int) {
    EXPECT_EQ(LargestOf(row, 64, 0), largest);
    for (int64_t t = 1; t < 6; ++t) EXPECT_LT(LargestOf(row, 64, t), LargestOf(row, 64, t - 1));
  });
}

// Fails unless, for one of the sizes that tiles have, odd tiles lie below both neighbours and even ones
// rise.
TEST(ExpandLogitsTest, ZigzagMaxima) {
  ForEachRow("values=zigzag", 3, 5, [](const Row& row, double, int) {
    bool any = false;
    for (const int64_t tile : {16, 32, 64, 128, 256}) {
      bool all = true;
      for (int64_t t = 1; tile * (t + 1) <= 337; ++t) {
        all = all && (t % 2 == 1 ? LargestOf(row, tile, t) < LargestOf(row, tile, t - 1)
                                 : LargestOf(row, tile, t) > LargestOf(row, tile, t - 2));
      }
      any = any || all;
    }
    EXPECT_TRUE(any);
  });
}

// Fails if the largest logit is one column's alone, or everything ties.
TEST(ExpandLogitsTest, TiesShareTheMaximum) {
  ForEachRow("values=ties", 0, 12, [](const Row& row, double largest, int) {
    const auto tied = std::count(row.begin(), row.end(), largest);
    EXPECT_GE(tied, 2);
    EXPECT_LT(tied, 300);
  });
}

// Fails if a gap leaves the range in which weights turn subnormal and vanish.
TEST(ExpandLogitsTest, OutlierIsAloneAndTheRestUnderflows) {
  ForEachRow("values=outlier", 0, 0, [](const Row& row, double largest, int) {
    EXPECT_EQ(largest, 0);
    EXPECT_EQ(std::count(row.begin(), row.end(), 0.0), 1);
    for (const double x : row) EXPECT_TRUE(x == 0 || (x <= -87 && x > -104)) << x;
  });
}

// Fails if the two largest are further apart than one ulp, or a third comes near.
TEST(ExpandLogitsTest, UlpApart) {
  ForEachRow("values=ulp-apart", 0, 10, [](const Row& row, double largest, int exp) {
    Row sorted = row;
    std::sort(sorted.rbegin(), sorted.rend());
    EXPECT_EQ(std::nextafter(static_cast<float>(sorted[1]), INFINITY), static_cast<float>(largest));
    EXPECT_LE(sorted[2], sorted[1] - 0.3);
    EXPECT_GE(std::fabs(largest), std::ldexp(1.0, exp));
  });
}

// Fails if lse is not near 0, where it is a small difference of large terms. The widest spread is 1/4.
TEST(ExpandLogitsTest, LseNearZero) {
  ForEachRow("values=lse-zero", 0, 0, [](const Row& row, double, int) {
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    EXPECT_LE(std::fabs(std::log(sum)), 0.13);
  });
}

// Fails if the entropy is not small, or if the offset is.
TEST(ExpandLogitsTest, EntropyTrap) {
  ForEachRow("values=entropy-trap", 8, 20, [](const Row& row, double largest, int exp) {
    double sum = 0, moment = 0;
    for (const double x : row) {
      sum += std::exp(x - largest);
      moment += std::exp(x - largest) * (largest - x);
    }
    EXPECT_LE(std::log(sum) + moment / sum, 3);
    EXPECT_GE(std::fabs(largest), std::ldexp(1.0, exp) - 32);
  });
}

// Fails if logits stay within fp16, or the softmax is decided by one column.
TEST(ExpandLogitsTest, FarLogits) {
  ForEachRow("values=far", 17, 22, [](const Row& row, double largest, int exp) {
    EXPECT_GE(std::fabs(largest), std::ldexp(1.0, exp) - 16);
    EXPECT_GE(std::count_if(row.begin(), row.end(), [&](double x) { return x > largest - 10; }), 100);
  });
}

}  // namespace
}  // namespace plumbline::fuzz
