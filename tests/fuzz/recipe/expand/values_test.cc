// SPDX-License-Identifier: Apache-2.0
//
// Tests the values whose dot products are rounded. Logits are recomputed here in long double, from the
// bits of the tensors alone: 64 bits of significand hold products of 24 bits, and sums of a few hundred
// of them to well below what is asserted.

#include "fuzz/recipe/expand/values.h"
#include "fuzz/recipe/expand/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr DType kDTypes[] = {DType::kBf16, DType::kF16, DType::kF32};

long double Element(const HostTensor& tensor, int64_t i, int64_t d) {
  return tensor.GetFloat(i * tensor.shape[1] + d);
}

struct Logit {
  long double z = 0, magnitude = 0;
};
Logit LogitOf(const OwnedProblem& problem, int64_t i, int64_t v) {
  Logit logit;
  for (int64_t d = 0; d < problem.hidden_size(); ++d) {
    const long double product = Element(problem.hidden, i, d) * Element(problem.weight, v, d);
    logit.z += product;
    logit.magnitude += std::fabs(product);
  }
  return logit;
}

void ForEach(Values values, const std::vector<int>& exps, const std::vector<int64_t>& hs,
             const std::function<void(const Recipe&, const OwnedProblem&)>& visit) {
  for (const DType dtype : kDTypes) {
    for (const int exp : exps) {
      for (const int64_t h : hs) {
        for (uint64_t seed = 0; seed < 4; ++seed) {
          Recipe recipe;
          recipe.seed = seed;
          recipe.dtype = dtype;
          recipe.n = 4;
          recipe.v = 61;
          recipe.h = h;
          recipe.values = values;
          recipe.exp = exp;
          visit(recipe, Expand(recipe));
        }
      }
    }
  }
}

// Logits have mean 0 and standard deviation 2^exp. Over 48 rows of 8 or more dimensions, 61 columns
// each, the mean square deviates by less than 0.1 of itself (a row's energy by sqrt(1.6 / 8), of which
// 48 are averaged). So six deviations are [0.4, 1.6], and [0.6, 1.3] for its root; the mean likewise
// deviates by less than 0.15. Fails if the scale ignores H, or one factor is scaled twice.
TEST(ExpandValuesTest, GaussianHasTheScaleAsked) {
  for (const int exp : {-4, 0, 3}) {
    for (const int64_t h : {8, 64}) {
      long double squares = 0, sum = 0, count = 0;
      ForEach(Values::kGaussian, {exp}, {h}, [&](const Recipe& recipe, const OwnedProblem& problem) {
        for (int64_t i = 0; i < recipe.n; ++i) {
          for (int64_t v = 0; v < recipe.v; ++v) {
            const long double z = LogitOf(problem, i, v).z;
            squares += z * z;
            sum += z;
            ++count;
          }
        }
      });
      const long double unit = std::ldexp(1.0L, exp);
      EXPECT_NEAR(static_cast<double>(sum / count / unit), 0, 6 * 0.15);
      EXPECT_GT(std::sqrt(squares / count), 0.6L * unit);
      EXPECT_LT(std::sqrt(squares / count), 1.3L * unit);
    }
  }
}

// The maximum is not above 0, nor far below it (1.5 * 2 of its own and 9/2 of spread at most), and all
// but three columns are at or below -2^exp. So a phantom column, e^0, weighs at least as much as any
// real one, and from exp 3 on it moves lse by a visible part. Fails for a positive logit, for noise
// that grows with H, or if every column is near.
TEST(ExpandValuesTest, SmallLseHasAFewColumnsNearZero) {
  ForEach(Values::kSmallLse, {3, 4, 6}, {1, 2, 17, 96},
          [](const Recipe& recipe, const OwnedProblem& problem) {
            for (int64_t i = 0; i < recipe.n; ++i) {
              long double largest = -INFINITY, s = 0;
              int64_t near = 0;
              for (int64_t v = 0; v < recipe.v; ++v) {
                const long double z = LogitOf(problem, i, v).z;
                largest = std::max(largest, z);
                near += z > -std::ldexp(1.0L, recipe.exp) ? 1 : 0;
                s += std::exp(z);
              }
              ASSERT_LE(largest, 0) << Format(recipe);
              ASSERT_GE(largest, -3 - 4.5L) << Format(recipe);
              ASSERT_GE(near, 1) << Format(recipe);
              ASSERT_LE(near, 3) << Format(recipe);
              ASSERT_LE(s, 3 + 61 * std::exp(-8.0L)) << Format(recipe);
            }
          });
}

// Every logit is at or below -2^exp, and not all are equal. Gaps stay of order 1: at most 4 * 3 through
// dimension 1 and 9/4 through the rest; with one dimension, 7 * 2^(exp-7). Fails for a logit above the
// line, ties throughout, or gaps that make the softmax one-hot.
TEST(ExpandValuesTest, AllNegativeIsBelowTheLine) {
  ForEach(Values::kAllNegative, {0, 4, 7, 10, 14}, {1, 2, 3, 17, 96},
          [](const Recipe& recipe, const OwnedProblem& problem) {
            for (int64_t i = 0; i < recipe.n; ++i) {
              long double low = INFINITY, high = -INFINITY;
              for (int64_t v = 0; v < recipe.v; ++v) {
                low = std::min(low, LogitOf(problem, i, v).z);
                high = std::max(high, LogitOf(problem, i, v).z);
              }
              const long double line = -std::ldexp(1.0L, recipe.exp);
              // Row scales go up to 1.75, so gaps of dimension 0 do, too.
              const long double most = recipe.h == 1 ? -1.75L * 7 * line / 128 : 12 + 2.25L;
              ASSERT_LE(high, line) << Format(recipe);
              ASSERT_GT(high, low) << Format(recipe);
              ASSERT_LE(high - low, most) << Format(recipe);
              ASSERT_GE(low, recipe.dtype == DType::kF16 ? -60000 : -INFINITY) << Format(recipe);
            }
          });
}

// The pairs' magnitudes sum to 2^exp times 1/2 to 2 (h and w each in [1, 2], 1/4 in front, and rounding
// of w to bf16 which may reach 2). The remaining sum is at most 9 sqrt(R), R the dimensions that are no
// pair. Fails if a pair does not cancel (then |z| is of the size of the magnitudes) or has no weight.
TEST(ExpandValuesTest, CancelLeavesLittle) {
  ForEach(Values::kCancel, {6, 10, 14}, {3, 4, 17, 64, 97},
          [](const Recipe& recipe, const OwnedProblem& problem) {
            const auto h = static_cast<long double>(recipe.h);
            for (int64_t i = 0; i < recipe.n; ++i) {
              for (int64_t v = 0; v < recipe.v; ++v) {
                const Logit logit = LogitOf(problem, i, v);
                const long double rest = 9.1L * std::sqrt(std::max(h / 4 + 1, 2.0L));
                ASSERT_GE(logit.magnitude, std::ldexp(0.5L, recipe.exp)) << Format(recipe);
                ASSERT_LE(logit.magnitude, std::ldexp(2.0L, recipe.exp) + rest) << Format(recipe);
                ASSERT_LE(std::fabs(logit.z), rest) << Format(recipe);
              }
            }
          });
}

// Two dimensions leave at most 3 of 2^(exp-p), times h below 2, of magnitudes of about 2^exp, and not
// always 0. Fails if the perturbation is rounded away or as large as the values.
TEST(ExpandValuesTest, CancelOfTwoLeavesLastBits) {
  int64_t nonzero = 0;
  ForEach(Values::kCancel, {6, 12}, {2}, [&](const Recipe& recipe, const OwnedProblem& problem) {
    const int precision = recipe.dtype == DType::kBf16 ? 8 : recipe.dtype == DType::kF16 ? 11 : 24;
    for (int64_t v = 0; v < recipe.v; ++v) {
      const Logit logit = LogitOf(problem, 0, v);
      ASSERT_LE(std::fabs(logit.z), std::ldexp(6.0L, recipe.exp - precision)) << Format(recipe);
      ASSERT_GE(logit.magnitude, std::ldexp(0.5L, recipe.exp)) << Format(recipe);
      nonzero += logit.z != 0 ? 1 : 0;
    }
  });
  EXPECT_GT(nonzero, 12 * 61);
}

// Summed in fp32 in ascending order, everything after the large product is lost: the error is half an
// ulp, 2^(exp-24) times the row's power of two, for each term. Seeds that put the large product first
// must exist and lose all H - 1 terms. The error must have both signs, and larger logits come out too
// small. Fails if tails are above half an ulp (they would be rounded up), or c is odd in its last bit.
TEST(ExpandValuesTest, SwallowLosesEveryTail) {
  int64_t first = 0, low = 0, high = 0;
  ForEach(
      Values::kSwallow, {0, 3, 6}, {2, 16, 65}, [&](const Recipe& recipe, const OwnedProblem& problem) {
        if (std::fabs(Element(problem.weight, 0, 0)) < std::ldexp(1.0L, recipe.exp)) return;
        ++first;
        long double mean = 0;
        for (int64_t v = 0; v < recipe.v; ++v) {
          mean += LogitOf(problem, 0, v).z / static_cast<long double>(recipe.v);
        }
        for (int64_t v = 0; v < recipe.v; ++v) {
          float sum = 0;
          for (int64_t d = 0; d < recipe.h; ++d) {
            sum = std::fma(static_cast<float>(Element(problem.hidden, 0, d)),
                           static_cast<float>(Element(problem.weight, v, d)), sum);
          }
          const long double z = LogitOf(problem, 0, v).z;
          const long double scale = Element(problem.hidden, 0, 0);
          ASSERT_EQ(std::fabs(sum - z),
                    static_cast<long double>(recipe.h - 1) * scale * std::ldexp(1.0L, recipe.exp - 24))
              << Format(recipe);
          // If a logit is well above the mean, the loss is positive.
          const long double margin = scale * std::ldexp(0.25L, recipe.exp);
          if (z > mean + margin) {
            ASSERT_GT(z, sum) << Format(recipe);
          }
          if (z < mean - margin) {
            ASSERT_LT(z, sum) << Format(recipe);
          }
          (z > sum ? low : high) += 1;
        }
      });
  EXPECT_GT(first, 0);
  EXPECT_GT(low, 0);
  EXPECT_GT(high, 0);
}

// Fails for a kind that does not limit its exponent to the dtype: no value written is NaN or infinite,
// whatever the exponent.
TEST(ExpandValuesTest, ExtremeExponentsStayFinite) {
  for (int kind = 0; kind < 9; ++kind) {
    ForEach(static_cast<Values>(kind), {-100, 100}, {1, 2, 3, 20},
            [](const Recipe& recipe, const OwnedProblem& problem) {
              for (const HostTensor* tensor : {&problem.hidden, &problem.weight}) {
                for (int64_t k = 0; k < tensor->size(); ++k) {
                  ASSERT_TRUE(std::isfinite(tensor->GetFloat(k))) << Format(recipe);
                }
              }
            });
  }
}

// An element of a tensor keeps its value when rows, columns or dimensions are added, since it is drawn
// by its place. Fails if a draw is counted instead of addressed. (Kinds that divide by the number of
// dimensions are compared for hidden alone.)
TEST(ExpandValuesTest, ElementsDoNotDependOnTheShape) {
  Recipe small;
  small.seed = 5;
  small.dtype = DType::kF32;
  small.n = 3;
  small.v = 7;
  small.h = 9;
  small.values = Values::kGaussian;
  Recipe large = small;
  large.n = 5;
  large.v = 11;
  large.h = 36;  // 4 times as many: weights are halved exactly
  const OwnedProblem a = Expand(small), b = Expand(large);
  for (int64_t d = 0; d < small.h; ++d) {
    for (int64_t i = 0; i < small.n; ++i) EXPECT_EQ(Element(a.hidden, i, d), Element(b.hidden, i, d));
    for (int64_t v = 0; v < small.v; ++v)
      EXPECT_EQ(Element(a.weight, v, d), 2 * Element(b.weight, v, d));
  }
}

}  // namespace
}  // namespace plumbline::fuzz
