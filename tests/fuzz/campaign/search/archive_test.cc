// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/archive.h"

#include <gtest/gtest.h>

namespace plumbline::fuzz {
namespace {

CaseRecord Record(double lse, double loss) {
  CaseRecord record;
  record.case_class = {.name = "exact", .aim = "sharp", .dtype = "bf16", .grads = "fp32"};
  record.tightness = {{"lse", lse}, {"loss", loss}};
  return record;
}

Recipe Drawn(uint64_t seed, const std::string& regime = "exact-dot") {
  Recipe recipe;
  recipe.seed = seed;
  recipe.regime = regime;
  return recipe;
}

// Fails if the last case takes the place of the best, or if a niche is changed by another output or
// target.
TEST(ArchiveTest, KeepsTheTightestOfEachNiche) {
  Archive archive;
  EXPECT_EQ(archive.Add(0, Record(0.5, 0.25), Drawn(1)), 0.75);
  EXPECT_EQ(archive.Add(0, Record(0.25, 0.5), Drawn(2)), 0.25);
  EXPECT_EQ(archive.Add(0, Record(0.5, 0.5), Drawn(3)), 0);
  EXPECT_EQ(archive.Add(1, Record(0.125, 0), Drawn(4)), 0.125);
  ASSERT_EQ(archive.size(), 3U);
  EXPECT_EQ(archive.elites().at("0 lse exact sharp bf16 fp32").recipe.seed, 1U);
  EXPECT_EQ(archive.elites().at("0 loss exact sharp bf16 fp32").recipe.seed, 2U);
  EXPECT_EQ(archive.elites().at("1 lse exact sharp bf16 fp32").recipe.seed, 4U);
}

// Fails if the search continues from what already fails.
TEST(ArchiveTest, WhatFailsIsNoElite) {
  Archive archive;
  archive.Add(0, Record(0.5, 0.5), Drawn(1));
  EXPECT_EQ(archive.Add(0, Record(1.5, 0.5), Drawn(2)), 0);
  EXPECT_EQ(archive.elites().at("0 lse exact sharp bf16 fp32").recipe.seed, 1U);
  CaseRecord skipped = Record(0.75, 0.75);
  skipped.verdict = oracle::Verdict::kSkipped;
  EXPECT_EQ(archive.Add(0, skipped, Drawn(3)), 0);
}

}  // namespace
}  // namespace plumbline::fuzz
