// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace plumbline::fuzz {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Fails if bins are off by one at a power of two, or if a NaN counts as small.
TEST(Features, BinsAreFloorLog2) {
  EXPECT_EQ(TightnessBin(1), "2^0");
  EXPECT_EQ(TightnessBin(0.5), "2^-1");
  EXPECT_EQ(TightnessBin(0.4999), "2^-2");
  EXPECT_EQ(TightnessBin(1e-30), "2^-12");
  EXPECT_EQ(TightnessBin(0), "0");
  EXPECT_EQ(TightnessBin(1.0001), "over");
  EXPECT_EQ(TightnessBin(std::numeric_limits<double>::quiet_NaN()), "over");
}

// Fails if an output, the shape or a signature has no cell, or if a skipped case or a fault has one.
TEST(Features, ACaseHasItsOutputsItsShapeAndWhatItShows) {
  CaseRecord record;
  record.case_class = {.name = "exact", .aim = "sharp", .dtype = "fp16", .grads = "fp32"};
  record.by_output = {{"lse", {5, 0, 0, 0}}, {"entropy", {0, 0, 1, 0}}, {"loss", {0, 0, 0, 0}}};
  record.tightness = {{"lse", 0.3}};
  Recipe recipe;
  recipe.regime = "edges";
  recipe.v = 129;
  recipe.h = 32;
  EXPECT_THAT(CellsOf(record, recipe),
              UnorderedElementsAre("exact fp16 lse 2^-2", "exact fp16 entropy vacuous",
                                   "edges V+1/64 H/16 N1"));
  record.verdict = oracle::Verdict::kFail;
  record.signatures = {"bound:lse"};
  EXPECT_THAT(CellsOf(record, recipe), ::testing::Contains("shows bound:lse"));
  record.fault = true;
  EXPECT_THAT(CellsOf(record, recipe), IsEmpty());
  record = {};
  record.verdict = oracle::Verdict::kSkipped;
  EXPECT_THAT(CellsOf(record, recipe), IsEmpty());
}

// Fails if residues of different kinds share a cell.
TEST(Features, ShapesAreToldApartByTheirPlaceBetweenTiles) {
  std::set<std::string> cells;
  Recipe recipe;
  for (const int64_t v : {64, 65, 127, 80, 70}) {
    for (const int64_t h : {16, 17}) {
      for (const int64_t n : {0, 1, 2}) {
        recipe.v = v;
        recipe.h = h;
        recipe.n = n;
        cells.insert(CellsOf(CaseRecord{}, recipe).at(0));
      }
    }
  }
  EXPECT_EQ(cells.size(), 30U);
}

}  // namespace
}  // namespace plumbline::fuzz
