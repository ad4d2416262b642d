// SPDX-License-Identifier: Apache-2.0
//
// Tests expansion except for the values of hidden and weight: labels, ignored rows, temperature,
// upstream gradients, layout, and the outputs that are asked for.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/generate.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

Recipe Base(uint64_t seed = 0) {
  Recipe recipe;
  recipe.seed = seed;
  recipe.dtype = DType::kF32;
  recipe.n = 6;
  recipe.v = 20;
  recipe.h = 5;
  return recipe;
}

bool IsIgnored(const OwnedProblem& problem, int64_t row) {
  return problem.labels.GetInt(row) == problem.ignore_index;
}

bool RowIsFinite(const OwnedProblem& problem, int64_t row) {
  for (int64_t d = 0; d < problem.hidden_size(); ++d) {
    if (!std::isfinite(problem.hidden.GetFloat(row * problem.hidden_size() + d))) return false;
  }
  return true;
}

// Every drawn problem has consistent shapes and, unless its recipe says otherwise, lies in the judged
// domain: everything is finite except in ignored rows; labels are valid or ignored; temperatures are
// judged; sum |h w| max(1, 1/T) <= 2^126, which huge ones exceed by T alone. Fails for a kind of
// values, or a combination of options, that leaves the domain.
RC_GTEST_PROP(ExpandTest, DrawnProblemsAreInTheJudgedDomain, ()) {
  const Recipe recipe = *RecipeGen();
  RC_LOG() << Format(recipe) << "\n";
  const OwnedProblem problem = Expand(recipe);
  RC_ASSERT(!Inconsistency(problem).has_value());
  RC_ASSERT(problem.rows() == recipe.n);
  RC_ASSERT(problem.vocab() == recipe.v);
  RC_ASSERT(problem.hidden_size() == recipe.h);
  if (recipe.special != Special::kNone || recipe.labels == Labels::kInvalid) return;
  long double largest_weight = 0;
  for (int64_t k = 0; k < problem.weight.size(); ++k) {
    RC_ASSERT(std::isfinite(problem.weight.GetFloat(k)));
    largest_weight = std::max<long double>(largest_weight, std::fabs(problem.weight.GetFloat(k)));
  }
  const bool broadcast = problem.layout.grad_stride == 0;
  for (int64_t i = 0; i < recipe.n; ++i) {
    const int64_t label = problem.labels.GetInt(i);
    if (IsIgnored(problem, i)) continue;
    RC_ASSERT(label >= 0);
    RC_ASSERT(label < recipe.v);
    RC_ASSERT(RowIsFinite(problem, i));
    long double magnitude = 0;
    for (int64_t d = 0; d < recipe.h; ++d) {
      magnitude += std::fabs(problem.hidden.GetFloat(i * recipe.h + d)) * largest_weight;
    }
    float temperature = 1;
    if (problem.temperature) {
      temperature = problem.temperature->GetFloat(problem.temperature->shape.empty() ? 0 : i);
    }
    RC_ASSERT(temperature >= 0x1p-100F);
    RC_ASSERT(temperature <= 0x1p+100F);
    const long double scale = std::max(1.0L, 1 / static_cast<long double>(temperature));
    RC_ASSERT(magnitude * (recipe.values == Values::kHuge ? 1 : scale) <= 0x1p126L);
    for (const auto* grads : {&problem.grad_logprob, &problem.grad_entropy}) {
      if (!grads->has_value()) continue;
      const bool element0 = broadcast || (*grads)->shape.empty();
      RC_ASSERT(std::isfinite((*grads)->GetFloat(element0 ? 0 : i)));
    }
  }
}

// Fails for state outside the recipe: anything static, an address, a clock.
TEST(ExpandTest, IsAFunctionOfTheRecipe) {
  Recipe recipe = Base(9);
  recipe.labels = Labels::kIgnoredNaN;
  recipe.grads = Grads::kRandom;
  const OwnedProblem first = Expand(recipe);
  Expand(Base(10));
  EXPECT_EQ(Expand(recipe), first);
  recipe.regime = "other";  // a label only
  EXPECT_EQ(Expand(recipe), first);
  recipe.seed = 11;
  EXPECT_NE(Expand(recipe), first);
  recipe = Base(9);
  recipe.seed += uint64_t{1} << 32;
  EXPECT_NE(Expand(recipe).hidden, Expand(Base(9)).hidden);
}

// Fails if kFirst, kLast or kRandom give other columns, or random labels never reach some column.
TEST(ExpandTest, LabelsWithoutIgnoredRows) {
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Recipe recipe = Base(seed);
    recipe.label_dtype = seed % 2 == 0 ? DType::kI32 : DType::kI64;
    recipe.labels = Labels::kFirst;
    EXPECT_EQ(Expand(recipe).labels.GetInt(3), 0);
    recipe.labels = Labels::kLast;
    EXPECT_EQ(Expand(recipe).labels.GetInt(3), 19);
    recipe.labels = Labels::kRandom;
    const OwnedProblem problem = Expand(recipe);
    EXPECT_EQ(problem.ignore_index, -100);
    EXPECT_EQ(problem.labels.dtype, recipe.label_dtype);
    for (int64_t i = 0; i < recipe.n; ++i) seen.insert(problem.labels.GetInt(i));
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 19);
}

// At least one row is ignored and, of several, at least one is not. Ignore indices of every sort occur,
// inside [0, V) too. Fails if a row that should count has the ignore index as its label by chance. Some
// problem then has more ignored rows, under an index inside the vocabulary, than its plan says: no row
// may be left, or the plan differs for the same seed under another vocabulary.
TEST(ExpandTest, SomeIgnored) {
  std::set<int64_t> indices;
  for (const int64_t v : {2, 20}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Recipe recipe = Base(seed);
      recipe.v = v;
      recipe.labels = Labels::kSomeIgnored;
      const OwnedProblem problem = Expand(recipe);
      Recipe wide = recipe;
      wide.v = 100'000;  // a label that equals the index by chance is then unlikely
      wide.h = 0;
      const OwnedProblem reference = Expand(wide);
      int64_t ignored = 0;
      for (int64_t i = 0; i < recipe.n; ++i) {
        EXPECT_EQ(IsIgnored(problem, i), IsIgnored(reference, i)) << Format(recipe);
        ignored += IsIgnored(problem, i) ? 1 : 0;
        EXPECT_TRUE(RowIsFinite(problem, i));
      }
      EXPECT_GE(ignored, 1);
      EXPECT_LT(ignored, recipe.n);
      if (v == 20) indices.insert(problem.ignore_index);
    }
  }
  EXPECT_EQ(indices, (std::set<int64_t>{-100, -1, 0, 19, 20}));
}

TEST(ExpandTest, AllIgnored) {
  Recipe recipe = Base();
  recipe.labels = Labels::kAllIgnored;
  OwnedProblem problem = Expand(recipe);
  for (int64_t i = 0; i < recipe.n; ++i) EXPECT_TRUE(IsIgnored(problem, i));
  // Fails if a label is drawn from an empty range: without a vocabulary nothing but the ignore index is
  // valid.
  recipe.v = 0;
  for (const Labels labels : {Labels::kRandom, Labels::kArgmax, Labels::kLast, Labels::kIgnoredNaN}) {
    recipe.labels = labels;
    problem = Expand(recipe);
    for (int64_t i = 0; i < recipe.n; ++i) EXPECT_TRUE(IsIgnored(problem, i));
    EXPECT_EQ(Inconsistency(problem), std::nullopt);
  }
}

// Every ignored row holds a value that is not finite, in hidden, g, k and T alike, and no other row
// does; NaN and both infinities all occur. Fails if a kind of poison is missing, or reaches a row that
// counts.
TEST(ExpandTest, IgnoredNaN) {
  int64_t nans = 0, plus = 0, minus = 0;
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Recipe recipe = Base(seed);
      recipe.dtype = dtype;
      recipe.labels = Labels::kIgnoredNaN;
      recipe.grads = Grads::kRandom;
      recipe.entropy_grads = Grads::kOnes;
      recipe.temperature_per_row = true;
      const OwnedProblem problem = Expand(recipe);
      int64_t ignored = 0;
      for (int64_t i = 0; i < recipe.n; ++i) {
        ignored += IsIgnored(problem, i) ? 1 : 0;
        EXPECT_EQ(RowIsFinite(problem, i), !IsIgnored(problem, i)) << Format(recipe);
        EXPECT_EQ(std::isnan(problem.grad_logprob->GetFloat(i)), IsIgnored(problem, i));
        EXPECT_EQ(std::isnan(problem.grad_entropy->GetFloat(i)), IsIgnored(problem, i));
        EXPECT_EQ(std::isnan(problem.temperature->GetFloat(i)), IsIgnored(problem, i));
        for (int64_t d = 0; d < recipe.h; ++d) {
          const float value = problem.hidden.GetFloat(i * recipe.h + d);
          nans += std::isnan(value) ? 1 : 0;
          plus += value == INFINITY ? 1 : 0;
          minus += value == -INFINITY ? 1 : 0;
        }
      }
      EXPECT_GE(ignored, 1);
      EXPECT_LT(ignored, recipe.n);
    }
  }
  EXPECT_GT(nans, 0);
  EXPECT_GT(plus, 0);
  EXPECT_GT(minus, 0);
}

// Fails if an ignored row's NaN gets into a shared gradient: a broadcast gradient belongs to every row,
// and a reduced one to all of them.
TEST(ExpandTest, SharedGradientsAreNeverPoisoned) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Recipe recipe = Base(seed);
    recipe.labels = Labels::kIgnoredNaN;
    recipe.grads = Grads::kRandom;
    recipe.entropy_grads = Grads::kRandom;
    recipe.grad_stride = 0;
    OwnedProblem problem = Expand(recipe);
    for (int64_t i = 0; i < recipe.n; ++i) {
      EXPECT_TRUE(std::isfinite(problem.grad_logprob->GetFloat(i)));
      EXPECT_EQ(problem.grad_logprob->GetFloat(i), problem.grad_logprob->GetFloat(0));
      EXPECT_EQ(problem.grad_entropy->GetFloat(i), problem.grad_entropy->GetFloat(0));
    }
    recipe.grad_stride = 1;
    recipe.reduction = Reduction::kMean;
    problem = Expand(recipe);
    EXPECT_TRUE(problem.grad_logprob->shape.empty());
    EXPECT_TRUE(std::isfinite(problem.grad_logprob->GetFloat(0)));
  }
}

// Fails for a kind of gradients that is not what its name says.
TEST(ExpandTest, Gradients) {
  std::set<int64_t> hot;
  int least = 0, most = 0, least_fp16 = 0, most_fp16 = 0;
  int64_t negative = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Recipe recipe = Base(seed);
    recipe.entropy_grads = Grads::kOneHot;
    OwnedProblem problem = Expand(recipe);
    int64_t nonzero = 0;
    for (int64_t i = 0; i < recipe.n; ++i) {
      EXPECT_EQ(problem.grad_logprob->GetFloat(i), 1);
      if (problem.grad_entropy->GetFloat(i) != 0) {
        ++nonzero;
        hot.insert(i);
      }
    }
    EXPECT_EQ(nonzero, 1);

    recipe.grads = Grads::kFirstZero;
    recipe.entropy_grads = Grads::kRandom;
    problem = Expand(recipe);
    EXPECT_EQ(problem.grad_logprob->GetBits(0), 0u);
    EXPECT_NE(problem.grad_entropy->GetFloat(0), 0);
    for (int64_t i = 1; i < recipe.n; ++i) {
      EXPECT_NE(problem.grad_logprob->GetFloat(i), 0);
      EXPECT_NE(problem.grad_logprob->GetFloat(i), problem.grad_logprob->GetFloat(i - 1));
      EXPECT_NE(problem.grad_logprob->GetFloat(i), problem.grad_entropy->GetFloat(i));
      EXPECT_LT(std::fabs(problem.grad_logprob->GetFloat(i)), 3);
    }

    recipe.grads = Grads::kWide;
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      recipe.dtype = dtype;
      problem = Expand(recipe);
      for (int64_t i = 0; i < recipe.n; ++i) {
        const float g = problem.grad_logprob->GetFloat(i);
        int exponent = 0;
        EXPECT_EQ(std::fabs(std::frexp(g, &exponent)), 0.5F);  // a power of two, 2^(exponent - 1)
        negative += g < 0 ? 1 : 0;
        auto& low = dtype == DType::kF16 ? least_fp16 : least;
        auto& high = dtype == DType::kF16 ? most_fp16 : most;
        low = std::min(low, exponent - 1);
        high = std::max(high, exponent - 1);
      }
    }
  }
  EXPECT_EQ(hot.size(), 6u);
  EXPECT_EQ(least, -60);
  EXPECT_EQ(most, 60);
  EXPECT_EQ(least_fp16, -60);
  EXPECT_EQ(most_fp16, 8);
  EXPECT_GT(negative, 800);  // of 2400
  EXPECT_LT(negative, 1600);
}

// Fails if a backward pass is asked for without an upstream gradient, or left out with either.
TEST(ExpandTest, BackwardIsAskedForWithAnUpstreamGradient) {
  Recipe recipe = Base();
  recipe.fp32_grads = true;
  EXPECT_TRUE(Expand(recipe).wanted.grad_hidden);
  EXPECT_TRUE(Expand(recipe).wanted.fp32_grads);
  recipe.grads = Grads::kNone;
  OwnedProblem problem = Expand(recipe);
  EXPECT_FALSE(problem.grad_logprob.has_value());
  EXPECT_FALSE(problem.wanted.grad_hidden);
  EXPECT_FALSE(problem.wanted.grad_weight);
  EXPECT_TRUE(problem.wanted.entropy);
  recipe.entropy_grads = Grads::kOnes;
  problem = Expand(recipe);
  EXPECT_FALSE(problem.grad_logprob.has_value());
  EXPECT_TRUE(problem.grad_entropy.has_value());
  EXPECT_TRUE(problem.wanted.grad_weight);
}

// Fails if 1 is written out, a scalar becomes per-row, or rows draw from anything but {1/2, 1, 2} T.
TEST(ExpandTest, Temperature) {
  Recipe recipe = Base();
  EXPECT_FALSE(Expand(recipe).temperature.has_value());
  recipe.temperature = 0.7F;
  EXPECT_TRUE(Expand(recipe).temperature->shape.empty());
  EXPECT_EQ(Expand(recipe).temperature->GetFloat(0), 0.7F);
  recipe.temperature_per_row = true;
  std::set<float> seen;
  for (recipe.seed = 0; recipe.seed < 20; ++recipe.seed) {
    const OwnedProblem problem = Expand(recipe);
    for (int64_t i = 0; i < recipe.n; ++i) seen.insert(problem.temperature->GetFloat(i));
  }
  EXPECT_EQ(seen, (std::set<float>{0.35F, 0.7F, 1.4F}));
}

// Fails if an option of the layout is dropped on the way.
TEST(ExpandTest, Layout) {
  Recipe recipe = Base();
  recipe.hidden_major = true;
  recipe.pad = 3;
  recipe.grad_stride = 2;
  recipe.reduction = Reduction::kSum;
  const OwnedProblem problem = Expand(recipe);
  EXPECT_EQ(problem.layout, (Layout{true, 3, 3, 3, 2}));
  EXPECT_EQ(problem.reduction, Reduction::kSum);
  // Values never depend on it.
  EXPECT_EQ(problem.hidden, Expand(Base()).hidden);
  EXPECT_EQ(problem.weight, Expand(Base()).weight);
}

// Fails for a division by a zero shape, or a read of a row that does not exist.
TEST(ExpandTest, EmptyShapes) {
  for (int kind = 0; kind < 9; ++kind) {
    for (int labels = 0; labels < 7; ++labels) {
      for (const auto& [n, v, h] : std::vector<std::array<int64_t, 3>>{
               {0, 3, 2}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 0}, {1, 2, 2}}) {
        Recipe recipe = Base(1);
        recipe.values = static_cast<Values>(kind);
        recipe.labels = static_cast<Labels>(labels);
        recipe.entropy_grads = Grads::kOneHot;
        recipe.n = n;
        recipe.v = v;
        recipe.h = h;
        const OwnedProblem problem = Expand(recipe);
        EXPECT_EQ(Inconsistency(problem), std::nullopt) << Format(recipe);
        EXPECT_EQ(problem.rows(), n);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz
