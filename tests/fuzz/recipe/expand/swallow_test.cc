// SPDX-License-Identifier: Apache-2.0
//
// Values that are meant to lose terms must do so: errors of `host` come near its bounds, and those of a
// tensor core near theirs. Without this test a bound that is ten times too wide, or a kernel that is
// ten times worse than it says, would show nowhere.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/examine/placement.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/expand/values.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {
namespace {

// The largest error over bound of each output of host, over `count` draws of a regime that `takes`
// accepts.
template <class Takes>
std::map<std::string, double> Tightness(std::string_view regime, uint64_t count, Takes takes) {
  std::string error;
  const auto host = LoadTarget("host", &error);
  EXPECT_TRUE(host) << error;
  std::map<std::string, double> largest;
  for (uint64_t index = 0; index < count; ++index) {
    const Recipe recipe = DrawRecipe(11, index, regime);
    if (!takes(recipe)) continue;
    Placement placement(Expand(recipe));
    placement.Poison(0);
    EXPECT_EQ(host->Run(placement.problem(), placement.results()).status, RunStatus::kOk);
    const auto judgement =
        oracle::JudgeProblem(placement.problem(), placement.results(), host->description().contract);
    for (const oracle::OutputVerdict& v : judgement.outputs) {
      EXPECT_EQ(v.fail, 0) << Format(recipe);
      double& seen = largest[std::string(oracle::Name(v.output))];
      seen = std::max(seen, v.tightness);
    }
  }
  return largest;
}

bool Fp32Gradients(const Recipe& r) { return r.fp32_grads || r.dtype == kernel::DType::kF32; }

// Requires 0.8 of the bound for every output that comes from logits, and for dz in fp32 with it. Fails
// for tails that are kept, because they are larger than half an ulp or come before what swallows them;
// signs by which errors cancel.
TEST(Swallow, FmaChainsComeNearTheirBound) {
  const auto t = Tightness("swallow", 150, [](const Recipe& r) {
    return r.values == Values::kSwallowFma && Fp32Gradients(r);
  });
  EXPECT_GE(t.at("logprob"), 0.8);
  EXPECT_GE(t.at("entropy"), 0.8);
  EXPECT_GE(t.at("lse"), 0.8);
  EXPECT_GE(t.at("grad_weight"), 0.8);  // N = 1: dz times one number
}

// Fails for terms of column 0 or row 0 that are no larger than the others, tails that are not below
// half an ulp of them.
TEST(Swallow, GradientSumsComeNearTheirBound) {
  const auto t = Tightness("swallow", 150, [](const Recipe& r) {
    return r.values == Values::kSwallowGrads && Fp32Gradients(r);
  });
  EXPECT_GE(t.at("grad_hidden"), 0.8);
  EXPECT_GE(t.at("grad_weight"), 0.6);
}

// V = 131072: 256 tiles of 64 columns in the split that holds the maximum, each half an ulp of 1.
// Fails for a gap that is not exact, a maximum in the middle of the terms that it should swallow.
TEST(Swallow, TheSumOverALargeVocabularyComesNearItsBound) {
  std::string error;
  const auto host = LoadTarget("host", &error);
  for (const char* dtype : {"bf16", "fp16", "fp32"}) {
    Recipe recipe;
    ASSERT_TRUE(Parse("v1 n=1 v=131072 h=2 values=swallow-sum exp=6 labels=first grads=none dtype=" +
                          std::string(dtype),
                      &recipe, &error));
    for (recipe.seed = 0; (StreamOf(recipe, Purpose::kPlan).At(0)[0] & 3) == 0;) ++recipe.seed;
    Placement placement(Expand(recipe));
    placement.Poison(0);
    ASSERT_EQ(host->Run(placement.problem(), placement.results()).status, RunStatus::kOk);
    const auto judgement =
        oracle::JudgeProblem(placement.problem(), placement.results(), host->description().contract);
    for (const oracle::OutputVerdict& v : judgement.outputs) {
      EXPECT_GE(v.tightness, 0.5) << oracle::Name(v.output) << " " << dtype;
      EXPECT_EQ(v.fail, 0);
    }
  }
}

// Rounds toward zero, to a multiple of 2^exponent.
double Truncated(double x, int exponent) {
  return std::ldexp(std::trunc(std::ldexp(x, -exponent)), exponent);
}

// A Hopper tensor core as Khattak and Mikaitis (arXiv 2512.07004) describe it: 16 products and the
// accumulator are truncated to 25 bits below the largest exponent, added exactly, and truncated to 24
// bits. Computed in double, which holds all of it here.
double TensorCore(const HostTensor& a, int64_t row, const HostTensor& b, int64_t column, int64_t h) {
  double sum = 0;
  for (int64_t begin = 0; begin < h; begin += 16) {
    std::vector<double> terms = {sum};
    for (int64_t d = begin; d < std::min(h, begin + 16); ++d) {
      terms.push_back(double{a.GetFloat(row * h + d)} * b.GetFloat(column * h + d));
    }
    double largest = 0;
    for (const double term : terms) largest = std::max(largest, std::fabs(term));
    const int exponent = std::ilogb(largest);
    sum = 0;
    for (const double term : terms) sum += Truncated(term, exponent - 25);
    if (sum != 0) sum = Truncated(sum, std::ilogb(sum) - 23);
  }
  return sum;
}

// The bound is (17 2^-1 + 2) u S a block (oracle/ERROR-BUDGET.md, "Dot products"). Fails for tails that
// the alignment keeps, or that are so small that there was little to lose.
TEST(Swallow, TensorCoresComeNearTheirBound) {
  for (const char* dtype : {"bf16", "fp16"}) {
    double tightest = 0;
    for (const char* seed : {"1", "2", "3"}) {
      Recipe r;
      std::string error;
      ASSERT_TRUE(Parse(
          "v1 n=2 v=8 h=512 values=swallow-tensor exp=0 dtype=" + std::string(dtype) + " seed=" + seed,
          &r, &error));
      const OwnedProblem p = Expand(r);
      for (int64_t i = 0; i < r.n; ++i) {
        for (int64_t v = 0; v < r.v; ++v) {
          double exact = 0, magnitude = 0;  // exact: multiples of 2^-34 below 2^2
          for (int64_t d = 0; d < r.h; ++d) {
            const double product =
                double{p.hidden.GetFloat(i * r.h + d)} * p.weight.GetFloat(v * r.h + d);
            exact += product;
            magnitude += std::fabs(product);
          }
          const double error_of = std::fabs(TensorCore(p.hidden, i, p.weight, v, r.h) - exact);
          const double bound = 32 * 10.5 * 0x1p-24 * magnitude;
          EXPECT_LE(error_of, bound);
          tightest = std::max(tightest, error_of / bound);
          // Checks every column, so that none passes by luck: k = 3 of 128 costs 2 %.
          EXPECT_GE(error_of, 0.85 * bound) << dtype << " column " << v;
        }
      }
    }
    EXPECT_GE(tightest, 0.87) << dtype;
  }
}

}  // namespace
}  // namespace plumbline::fuzz
