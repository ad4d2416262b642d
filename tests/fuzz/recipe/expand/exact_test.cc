// SPDX-License-Identifier: Apache-2.0
//
// Tests the values whose dot products are exact. Everything is recomputed here in 128-bit integers, in
// units of the lattice that the bits of the tensors lie on.

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

using kernel::DType;
__extension__ using Integer = __int128;

// The largest q <= 0 for which 2^q divides every element of a row (0 for integers of any size).
int LatticeOf(const HostTensor& tensor, int64_t row) {
  int q = 0;
  for (int64_t d = 0; d < tensor.shape[1]; ++d) {
    const double value = tensor.GetFloat(row * tensor.shape[1] + d);
    while (std::ldexp(value, -q) != std::floor(std::ldexp(value, -q))) --q;
  }
  return q;
}

struct Dot {
  Integer sum = 0, magnitude = 0;  // in units of 2^q
  int q = 0;
  double value() const { return std::ldexp(static_cast<double>(sum), q); }
};

Dot ExactDot(const OwnedProblem& problem, int64_t i, int64_t v) {
  const int hidden_q = LatticeOf(problem.hidden, i), weight_q = LatticeOf(problem.weight, v);
  const int64_t h = problem.hidden_size();
  Dot dot;
  dot.q = hidden_q + weight_q;
  for (int64_t d = 0; d < h; ++d) {
    const auto a = static_cast<Integer>(std::ldexp(problem.hidden.GetFloat(i * h + d), -hidden_q));
    const auto b = static_cast<Integer>(std::ldexp(problem.weight.GetFloat(v * h + d), -weight_q));
    dot.sum += a * b;
    dot.magnitude += a * b < 0 ? -(a * b) : a * b;
  }
  return dot;
}

std::vector<Recipe> Grid(Values values, const std::vector<int>& exps, const std::vector<int64_t>& hs,
                         Labels labels) {
  std::vector<Recipe> grid;
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (const int exp : exps) {
      for (const int64_t h : hs) {
        for (uint64_t seed = 0; seed < 4; ++seed) {
          Recipe recipe;
          recipe.seed = seed;
          recipe.dtype = dtype;
          recipe.n = 3;
          recipe.v = 37;
          recipe.h = h;
          recipe.values = values;
          recipe.exp = exp;
          recipe.labels = labels;
          grid.push_back(recipe);
        }
      }
    }
  }
  return grid;
}

// Certifies exactness: the sum of magnitudes is at most 2^24 units of the lattice. Fails for a lattice
// that is too fine or integers too large for the number of dimensions, in any of the four kinds.
TEST(ExpandExactTest, EveryDotProductIsCertified) {
  const std::vector<int64_t> hs = {1, 2, 3, 4, 5, 16, 33, 96, 257};
  std::vector<Recipe> grid;
  for (const auto& [values, exps] : std::vector<std::pair<Values, std::vector<int>>>{
           {Values::kOffset, {0, 4, 7, 11, 15, 20, 23, 40}},
           {Values::kConfident, {0, 1, 5, 12, 24, 40, 100}},
           {Values::kLattice, {-60, -20, -2, 0, 3, 12}},
           {Values::kConstant, {-40, -3, 0, 8, 20}}}) {
    for (const Recipe& recipe : Grid(values, exps, hs, Labels::kRandom)) grid.push_back(recipe);
  }
  for (const Recipe& recipe : grid) {
    const OwnedProblem problem = Expand(recipe);
    for (int64_t i = 0; i < recipe.n; ++i) {
      for (int64_t v = 0; v < recipe.v; ++v) {
        const Dot dot = ExactDot(problem, i, v);
        ASSERT_LE(dot.magnitude, Integer{1} << 24) << Format(recipe);
        ASSERT_GE(dot.q, -149) << Format(recipe);
      }
    }
  }
}

// The certificate implies that fp32 sums forwards, backwards and from both ends have the bits of the
// exact value. Fails if any of them rounds.
TEST(ExpandExactTest, FloatSumsAgreeInAnyOrder) {
  for (const Recipe& recipe : Grid(Values::kLattice, {-2, 3}, {7, 64, 96}, Labels::kRandom)) {
    const OwnedProblem problem = Expand(recipe);
    const int64_t h = recipe.h;
    for (int64_t v = 0; v < recipe.v; ++v) {
      const auto product = [&](int64_t d) {
        return problem.hidden.GetFloat(h + d) * problem.weight.GetFloat(v * h + d);
      };
      float forwards = 0, backwards = 0, ends = 0;
      for (int64_t d = 0; d < h; ++d) {
        forwards += product(d);
        backwards += product(h - 1 - d);
        ends += product(d % 2 == 0 ? d / 2 : h - 1 - d / 2);
      }
      const double exact = ExactDot(problem, 1, v).value();
      ASSERT_EQ(forwards, exact) << Format(recipe);
      ASSERT_EQ(backwards, exact) << Format(recipe);
      ASSERT_EQ(ends, exact) << Format(recipe);
    }
  }
}

// Fails if every lattice is so coarse that rounding a logit to bf16 changes none of them: the regime
// must also have logits that use the bits.
TEST(ExpandExactTest, LatticeLogitsNeedMoreBitsThanBf16) {
  int64_t changed = 0, logits = 0;
  for (const Recipe& recipe : Grid(Values::kLattice, {2}, {16, 96}, Labels::kRandom)) {
    const OwnedProblem problem = Expand(recipe);
    for (int64_t v = 0; v < recipe.v; ++v) {
      const auto logit = static_cast<float>(ExactDot(problem, 0, v).value());
      changed += kernel::ToFloat(kernel::ToBFloat16(logit)) != logit ? 1 : 0;
      ++logits;
    }
  }
  EXPECT_GT(changed, logits / 4);
}

// kLattice's exp. Integers uniform in [-A, A] have variance A(A + 1)/3, taken as A^2/3 (at least half
// of it), and half a log2 rounded down costs another factor 2: the deviation asked for is 2^exp to 4 *
// 2^exp. Below, a factor 2 is left for the sample, one row of each of 12 seeds. Fails if the scale
// ignores H or A.
TEST(ExpandExactTest, LatticeLogitsHaveTheScaleAsked) {
  for (const int exp : {-3, 0, 4}) {
    for (const int64_t h : {4, 64}) {
      double squares = 0, count = 0;
      for (const Recipe& recipe : Grid(Values::kLattice, {exp}, {h}, Labels::kRandom)) {
        const OwnedProblem problem = Expand(recipe);
        for (int64_t v = 0; v < recipe.v; ++v) {
          const double logit = ExactDot(problem, 0, v).value();
          squares += logit * logit;
          ++count;
        }
      }
      const double rms = std::sqrt(squares / count);
      EXPECT_GT(rms, std::ldexp(0.5, exp)) << exp << " " << h;
      EXPECT_LT(rms, std::ldexp(4.0, exp)) << exp << " " << h;
    }
  }
}

// kOffset: integers with a common offset of size 2^exp to 1.5 * 2^exp + 128 and gaps of 0 to 8 above
// its low end, not all equal; within fp16's range if the dtype is fp16. Fails for an offset lost in the
// dtype, and for gaps that grow with H.
TEST(ExpandExactTest, OffsetIsCommonAndLarge) {
  for (const Recipe& recipe :
       Grid(Values::kOffset, {4, 7, 10, 15, 20}, {1, 2, 3, 4, 17, 96}, Labels::kRandom)) {
    const OwnedProblem problem = Expand(recipe);
    // The largest offset that one value of the dtype, or fp16's range, can carry.
    const int precision = recipe.dtype == DType::kBf16 ? 8 : recipe.dtype == DType::kF16 ? 11 : 24;
    int exp = recipe.h == 1 ? std::min(recipe.exp, precision - 1) : recipe.exp;
    if (recipe.dtype == DType::kF16) exp = std::min(exp, 15);
    for (int64_t i = 0; i < recipe.n; ++i) {
      double low = INFINITY, high = -INFINITY;
      for (int64_t v = 0; v < recipe.v; ++v) {
        const Dot dot = ExactDot(problem, i, v);
        ASSERT_EQ(dot.q, 0) << Format(recipe);
        low = std::min(low, dot.value());
        high = std::max(high, dot.value());
      }
      ASSERT_LE(high - low, 8) << Format(recipe);
      ASSERT_GT(high, low) << Format(recipe);
      ASSERT_GE(std::max(std::fabs(low), std::fabs(high)), std::ldexp(1.0, exp)) << Format(recipe);
      ASSERT_LE(std::fabs(low), std::ldexp(1.5, exp) + 128 + 8) << Format(recipe);
      ASSERT_LE(std::fabs(low), recipe.dtype == DType::kF16 ? 60000 : INFINITY) << Format(recipe);
    }
  }
}

// Fails if the sign is stuck: both signs of the offset must occur.
TEST(ExpandExactTest, OffsetHasBothSigns) {
  int negative = 0, positive = 0;
  for (const Recipe& recipe : Grid(Values::kOffset, {12}, {8}, Labels::kRandom)) {
    (ExactDot(Expand(recipe), 0, 0).sum < 0 ? negative : positive) += 1;
  }
  EXPECT_GT(negative, 0);
  EXPECT_GT(positive, 0);
}

// kConfident with argmax labels. The odds against the label, in long double, are 2^-exp times at most
// what the construction adds to a logit difference: noise of 1/2 on either side, the lead rounded to a
// multiple of 1/4, log2 that is 0.087 short, and 1/64 of the lead through each other row's dimension.
// Fails if the lead ignores V, is in the wrong base, goes to another column than the largest, or is
// rounded away.
TEST(ExpandExactTest, ConfidentLabelLeadsByExpBits) {
  for (const Recipe& recipe :
       Grid(Values::kConfident, {0, 1, 3, 8, 20, 40}, {1, 3, 4, 16, 65}, Labels::kArgmax)) {
    const OwnedProblem problem = Expand(recipe);
    for (int64_t i = 0; i < recipe.n; ++i) {
      const int64_t label = problem.labels.GetInt(i);
      const double top = ExactDot(problem, i, label).value();
      long double odds = 0;
      for (int64_t v = 0; v < recipe.v; ++v) {
        if (v != label)
          odds += std::exp(static_cast<long double>(ExactDot(problem, i, v).value() - top));
      }
      const long double others = std::log(static_cast<long double>(recipe.v - 1));
      const long double lead = recipe.exp * std::log(2.0L) + others;
      const long double slack = 0.5L + 0.5L + 0.125L + 0.087L * std::log(2.0L) +
                                2 * static_cast<long double>(recipe.n - 1) * (lead + 0.125L) / 64;
      const long double error = std::log(odds) + recipe.exp * std::log(2.0L);
      ASSERT_LE(std::fabs(error), slack) << Format(recipe) << " row " << i;
    }
  }
}

// Fails if all rows lead to one column although there are dimensions for each.
TEST(ExpandExactTest, ConfidentRowsHaveDifferentLabels) {
  int different = 0;
  for (const Recipe& recipe : Grid(Values::kConfident, {8}, {16}, Labels::kArgmax)) {
    const OwnedProblem problem = Expand(recipe);
    different += problem.labels.GetInt(0) != problem.labels.GetInt(1) ? 1 : 0;
  }
  EXPECT_GT(different, 6);  // of 12; one in 37 coincides by chance
}

// The label of kArgmax is the first column of the largest exact logit; coarse lattices have many ties.
// Fails for the last of equals, a minimum, or another row's logits.
TEST(ExpandExactTest, ArgmaxIsTheFirstLargest) {
  for (const Values values : {Values::kLattice, Values::kOffset, Values::kConstant}) {
    for (const Recipe& recipe : Grid(values, {0, 9}, {1, 2, 24}, Labels::kArgmax)) {
      const OwnedProblem problem = Expand(recipe);
      for (int64_t i = 0; i < recipe.n; ++i) {
        int64_t best = 0;
        for (int64_t v = 1; v < recipe.v; ++v) {
          if (ExactDot(problem, i, v).value() > ExactDot(problem, i, best).value()) best = v;
        }
        ASSERT_EQ(problem.labels.GetInt(i), best) << Format(recipe) << " row " << i;
      }
    }
  }
}

// Fails if anything varies: kConstant has one logit, of size 2^(exp-1) to 2^exp, in every column and
// row.
TEST(ExpandExactTest, ConstantIsOneNumber) {
  for (const Recipe& recipe : Grid(Values::kConstant, {-4, 0, 7}, {1, 2, 3, 96}, Labels::kRandom)) {
    const OwnedProblem problem = Expand(recipe);
    const double first = ExactDot(problem, 0, 0).value();
    EXPECT_GT(std::fabs(first), std::ldexp(0.5, recipe.exp)) << Format(recipe);
    EXPECT_LE(std::fabs(first), std::ldexp(1.0, recipe.exp)) << Format(recipe);
    for (int64_t i = 0; i < recipe.n; ++i) {
      for (int64_t v = 0; v < recipe.v; ++v) ASSERT_EQ(ExactDot(problem, i, v).value(), first);
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz
