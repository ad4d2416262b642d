// SPDX-License-Identifier: Apache-2.0
//
// Tests the expansion of labels by place, of upstream gradients by size, of masks, and of the outputs
// asked for.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

OwnedProblem Expanded(const std::string& keys) {
  Recipe recipe;
  std::string error;
  EXPECT_TRUE(Parse("v1 " + keys, &recipe, &error)) << error;
  return Expand(recipe);
}

std::string Seed(int seed) { return " seed=" + std::to_string(seed); }

// Fails if an edge is off by one, or only one side of it is ever drawn.
TEST(ExpandOptionsTest, LabelsAtTileEdges) {
  std::set<int64_t> seen;
  for (int seed = 0; seed < 20; ++seed) {
    const OwnedProblem p = Expanded("n=30 v=300 h=2 labels=tile-edge" + Seed(seed));
    for (int64_t i = 0; i < 30; ++i) {
      const int64_t label = p.labels.GetInt(i);
      EXPECT_TRUE(label % 16 == 0 || label % 16 == 15 || label == 299) << label;
      seen.insert(label);
    }
  }
  EXPECT_TRUE(seen.contains(0) && seen.contains(15) && seen.contains(16) && seen.contains(256));
}

TEST(ExpandOptionsTest, LabelsInTheLastTile) {
  for (int seed = 0; seed < 20; ++seed) {
    const OwnedProblem p = Expanded("n=30 v=300 h=2 labels=last-tile" + Seed(seed));
    // 256 columns are the largest tile, and 300 = 256 + 44.
    for (int64_t i = 0; i < 30; ++i) EXPECT_GE(p.labels.GetInt(i), 256);
  }
}

TEST(ExpandOptionsTest, SameAndDistinctLabels) {
  std::set<int64_t> same, distinct;
  const OwnedProblem one = Expanded("n=30 v=40 h=2 labels=same");
  const OwnedProblem all = Expanded("n=30 v=40 h=2 labels=distinct");
  for (int64_t i = 0; i < 30; ++i) {
    same.insert(one.labels.GetInt(i));
    distinct.insert(all.labels.GetInt(i));
  }
  EXPECT_EQ(same.size(), 1u);
  EXPECT_EQ(distinct.size(), 30u);
}

// Fails if the label is any other column than the least likely.
TEST(ExpandOptionsTest, ArgminLabels) {
  const OwnedProblem p = Expanded("n=4 v=50 h=3 labels=argmin values=falling exp=2");
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(p.labels.GetInt(i), 49);
}

TEST(ExpandOptionsTest, OneRowCounts) {
  for (int seed = 0; seed < 20; ++seed) {
    const OwnedProblem p = Expanded("n=9 v=5 h=2 labels=one-valid reduction=mean" + Seed(seed));
    int64_t valid = 0;
    for (int64_t i = 0; i < 9; ++i) valid += p.labels.GetInt(i) != p.ignore_index ? 1 : 0;
    EXPECT_EQ(valid, 1);
  }
}

// In 32 bits ignore_index equals the label of rows that count. Fails if no such row is drawn, or if
// rows are ignored although the label's dtype cannot hold the index.
TEST(ExpandOptionsTest, FarIgnoreIndex) {
  for (int seed = 0; seed < 20; ++seed) {
    for (const char* dtype : {"int32", "int64"}) {
      const OwnedProblem p =
          Expanded("n=20 v=5 h=2 labels=far-ignored label_dtype=" + std::string(dtype) + Seed(seed));
      EXPECT_GE(p.ignore_index, int64_t{1} << 32);
      int64_t ignored = 0, trapped = 0;
      for (int64_t i = 0; i < 20; ++i) {
        ignored += p.labels.GetInt(i) == p.ignore_index ? 1 : 0;
        trapped += p.labels.GetInt(i) == static_cast<int32_t>(p.ignore_index) ? 1 : 0;
      }
      EXPECT_EQ(ignored > 0, std::string(dtype) == "int64");
      EXPECT_GT(trapped, 0);
    }
  }
}

// Fails if a whole tile is not masked, a label is, or nothing is left.
TEST(ExpandOptionsTest, MaskedTiles) {
  for (int seed = 0; seed < 20; ++seed) {
    for (const char* special : {"masked-first", "masked-but-one"}) {
      const OwnedProblem p = Expanded("n=6 v=300 h=4 special=" + std::string(special) + Seed(seed));
      int64_t masked = 0, first = -1;
      std::set<int64_t> finite;
      for (int64_t v = 0; v < 300; ++v) {
        bool infinite = false;
        for (int64_t d = 0; d < 4; ++d) infinite = infinite || std::isinf(p.weight.GetFloat(v * 4 + d));
        masked += infinite ? 1 : 0;
        if (!infinite) finite.insert(v);
        if (!infinite && first < 0) first = v;
      }
      EXPECT_GE(masked, 16);
      EXPECT_GE(finite.size(), 1u);
      const bool but_one = std::string(special) == "masked-but-one";
      EXPECT_EQ(but_one ? finite.size() : 1, 1u);
      EXPECT_EQ(but_one ? masked : first, masked) << "not the first columns";
      for (int64_t i = 0; i < 6; ++i) EXPECT_TRUE(finite.contains(p.labels.GetInt(i)));
    }
  }
}

TEST(ExpandOptionsTest, AlternatingAndTinyGradients) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const OwnedProblem p =
        Expanded("n=8 v=3 h=2 grads=alternating entropy_grads=tiny dtype=" + std::string(dtype));
    const float large = std::string(dtype) == "fp16" ? 0x1p8F : 0x1p60F;
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(p.grad_logprob->GetFloat(i), i % 2 == 0 ? large : -large);
      const float tiny = std::fabs(p.grad_entropy->GetFloat(i));
      EXPECT_GE(tiny, 0x1p-30F);
      EXPECT_LE(tiny, 0x1p-20F);
    }
  }
}

// Fails if a spread is ignored, or moves the lines without one.
TEST(ExpandOptionsTest, TemperatureSpread) {
  float least = 1, most = 1;
  const OwnedProblem p = Expanded("n=200 v=3 h=2 temperature_per_row=1 temperature_spread=8");
  for (int64_t i = 0; i < 200; ++i) {
    least = std::min(least, p.temperature->GetFloat(i));
    most = std::max(most, p.temperature->GetFloat(i));
  }
  EXPECT_EQ(least, 0x1p-8F);
  EXPECT_EQ(most, 0x1p8F);
}

// Fails if an output that the recipe names is dropped, or if a gradient is asked for without an
// upstream gradient.
TEST(ExpandOptionsTest, WhatIsAskedFor) {
  EXPECT_EQ(Expanded("grads=ones").wanted, Wanted{});
  EXPECT_EQ(Expanded("grads=ones want=none").wanted, (Wanted{false, false, false, false, false}));
  EXPECT_EQ(Expanded("grads=ones want=lse,grad_weight").wanted,
            (Wanted{false, true, false, true, false}));
  EXPECT_EQ(Expanded("grads=none want=entropy,grad_hidden").wanted,
            (Wanted{true, false, false, false, false}));
}

// Fails unless every row of a broadcast hidden is row 0 and every label of stride 0 is label 0, poison
// or not.
TEST(ExpandOptionsTest, BroadcastRowsAreEqual) {
  for (const char* labels : {"random", "ignored-nan", "invalid"}) {
    const OwnedProblem p =
        Expanded("n=5 v=9 h=3 rows=broadcast label_stride=0 labels=" + std::string(labels));
    for (int64_t k = 3; k < 15; ++k) EXPECT_EQ(p.hidden.GetBits(k), p.hidden.GetBits(k % 3));
    for (int64_t i = 1; i < 5; ++i) EXPECT_EQ(p.labels.GetInt(i), p.labels.GetInt(0));
    for (int64_t k = 0; k < 3; ++k) EXPECT_TRUE(std::isfinite(p.hidden.GetFloat(k)));
  }
}

}  // namespace
}  // namespace plumbline::fuzz
