// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/covering.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include "fuzz/recipe/levels.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

using Pair = std::tuple<int, int, int, int>;
using Triple = std::tuple<int, int, int, int, int, int>;

bool Meet(int a, int x, int b, int y) {
  return CanMeet(static_cast<Factor>(a), x, static_cast<Factor>(b), y);
}

int Count(int factor) { return LevelCount(static_cast<Factor>(factor)); }

// Everything that can meet, found by trying.
void Enumerate(std::set<Pair>* pairs, std::set<Triple>* triples) {
  for (int a = 0; a < kFactors; ++a) {
    for (int b = a + 1; b < kFactors; ++b) {
      for (int x = 0; x < Count(a); ++x) {
        for (int y = 0; y < Count(b); ++y) {
          if (!Meet(a, x, b, y)) continue;
          pairs->emplace(a, x, b, y);
          for (int c = b + 1; c < kFactors; ++c) {
            for (int z = 0; z < Count(c); ++z) {
              if (Meet(a, x, c, z) && Meet(b, y, c, z)) triples->emplace(a, x, b, y, c, z);
            }
          }
        }
      }
    }
  }
}

void Remove(const Levels& row, std::set<Pair>* pairs, std::set<Triple>* triples) {
  const auto at = [&](int f) { return row[static_cast<size_t>(f)]; };
  for (int a = 0; a < kFactors; ++a) {
    for (int b = a + 1; b < kFactors; ++b) {
      pairs->erase({a, at(a), b, at(b)});
      for (int c = b + 1; c < kFactors; ++c) triples->erase({a, at(a), b, at(b), c, at(c)});
    }
  }
}

// Fails if a pair or a triple that can meet is in no row within the stated number of rows: because a
// level is dropped, a constraint is too wide, or the design grows.
TEST(CoveringTest, EveryPairAndTripleIsPlannedInTime) {
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    std::set<Pair> pairs;
    std::set<Triple> triples;
    Enumerate(&pairs, &triples);
    EXPECT_GT(pairs.size(), 2'000U);
    EXPECT_GT(triples.size(), 30'000U);
    CoveringDesign design(seed);
    int64_t row = 0;
    for (; row < CoveringDesign::kTripleRows && !triples.empty(); ++row) {
      Remove(design.At(row), &pairs, &triples);
      if (row + 1 == CoveringDesign::kPairRows) {
        EXPECT_EQ(pairs.size(), 0U);
      }
    }
    EXPECT_EQ(pairs.size(), 0U);
    EXPECT_EQ(triples.size(), 0U) << "after " << row << " rows";
  }
}

// Fails if a row has levels that cannot meet, lacks a factor that its regime does not fix, or is not
// what its seed says.
TEST(CoveringTest, RowsAreWholeAndPossible) {
  CoveringDesign design(3), same(3), other(4);
  int differing = 0;
  for (int64_t i = 0; i < 1'500; ++i) {
    const Levels row = design.At(i);
    ASSERT_EQ(row, same.At(i));
    differing += row != other.At(i) ? 1 : 0;
    for (int a = 0; a < kFactors; ++a) {
      const int x = row[static_cast<size_t>(a)];
      ASSERT_EQ(x == kByRegime, a > 0 && !Meet(0, row[0], a, 0)) << "factor " << a;
      for (int b = a + 1; b < kFactors && x != kByRegime; ++b) {
        const int y = row[static_cast<size_t>(b)];
        EXPECT_TRUE(y == kByRegime || Meet(a, x, b, y));
      }
    }
  }
  EXPECT_GT(differing, 1'000);
}

// Fails if the recipe that is drawn for a row has another level than the row: the summary would count
// what was not run. Fails if more than one row in 200 costs as much as a search's largest cases.
TEST(CoveringTest, RecipesHaveTheLevelsOfTheirRow) {
  CoveringDesign design(5);
  int dear = 0;
  for (int64_t i = 0; i < 3'000; ++i) {
    const Levels row = design.At(i);
    const Recipe r = DrawWithLevels(5, static_cast<uint64_t>(i), row);
    Recipe parsed;
    std::string error;
    ASSERT_TRUE(Parse(Format(r), &parsed, &error)) << error;
    EXPECT_EQ(parsed, r);
    EXPECT_EQ(r.regime, Regimes()[static_cast<size_t>(row[0])].name);
    for (int f = 0; f < kFactors; ++f) {
      if (static_cast<Factor>(f) == Factor::kFamily) continue;
      ASSERT_EQ(LevelOf(static_cast<Factor>(f), r), row[static_cast<size_t>(f)])
          << "factor " << f << ": " << Format(r);
    }
    EXPECT_LE(r.n * r.v * r.h, 12'000'000) << Format(r);
    dear += r.n * r.v * r.h > 1'500'000 ? 1 : 0;
  }
  EXPECT_LE(dear, 15);
  Levels none;
  none.fill(kByRegime);
  EXPECT_THROW(DrawWithLevels(1, 1, none), std::invalid_argument);
}

// Fails if a tuple counts twice, or one that was not marked counts.
TEST(CoveringTest, TuplesAreCountedOnce) {
  std::set<Pair> pairs;
  std::set<Triple> triples;
  Enumerate(&pairs, &triples);
  LevelTuples tuples;
  EXPECT_EQ(tuples.pairs(), static_cast<int64_t>(pairs.size()));
  EXPECT_EQ(tuples.triples(), static_cast<int64_t>(triples.size()));
  CoveringDesign design(6);
  for (int64_t i = 0; i < 50; ++i) {
    for (int twice = 0; twice < 2; ++twice) tuples.Mark(design.At(i));
    Remove(design.At(i), &pairs, &triples);
    EXPECT_EQ(tuples.pairs_marked(), tuples.pairs() - static_cast<int64_t>(pairs.size()));
    EXPECT_EQ(tuples.triples_marked(), tuples.triples() - static_cast<int64_t>(triples.size()));
  }
  EXPECT_EQ(LevelTuples(false).pairs(), 0);
}

}  // namespace
}  // namespace plumbline::fuzz
