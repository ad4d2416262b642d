// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/regimes.h"
#include "fuzz/base/hash.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fuzz/recipe/generate.h"

namespace plumbline::fuzz {
namespace {

// A recipe line in a report, a corpus or somebody's notebook must mean the same tensors tomorrow and on
// another machine, so:
//   kGoldenBytes, of fixed lines with every kind of values, labels, gradients and special values, may
//   change only together with the version word of the grammar (v1 -> v2), or grow by a new kind (as
//   kGoldenLaterBytes does, in drawn_test.cc);
//   kGoldenLines, the first 1 000 recipes of seed 1, may change whenever the regimes do, or
//   RapidCheck's mapping: campaigns then draw other cases, but no line changes its meaning. Say so in
//   the change that does it.
// The first fails for a libm function, an unfused multiply-add that the compiler fused, or a standard
// distribution on the way from recipe to bits, as soon as it is run on a machine or compiler that
// differs.
constexpr uint64_t kGoldenLines = 0x124098c50b233a72u;
constexpr uint64_t kGoldenBytes = 0xd69a1fe97d2f1731u;

TEST(RegimesTest, GoldenLines) {
  Fnv1a hash;
  for (uint64_t index = 0; index < 1000; ++index) {
    hash.Add(Format(DrawRecipe(1, index)) + "\n");
  }
  const uint64_t lines = hash.value();
  EXPECT_EQ(lines, kGoldenLines) << std::hex << "0x" << lines;
}

TEST(RegimesTest, GoldenBytes) {
  Fnv1a hash;
  const auto add = [&](const std::string& keys) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
      Recipe recipe;
      std::string error;
      ASSERT_TRUE(Parse("v1 n=5 v=67 h=19 exp=3 dtype=" + std::string(dtype) + keys, &recipe, &error))
          << error;
      const OwnedProblem problem = Expand(recipe);
      hash.Add(problem.hidden.bytes);
      hash.Add(problem.weight.bytes);
      hash.Add(problem.labels.bytes);
      for (const auto* tensor : {&problem.temperature, &problem.grad_logprob, &problem.grad_entropy}) {
        if (tensor->has_value()) hash.Add((*tensor)->bytes);
      }
    }
  };
  for (const char* values :
       {"gaussian",      "small-lse",    "all-negative", "offset",      "confident",      "lattice",
        "cancel",        "swallow",      "constant",     "swallow-fma", "swallow-tensor", "swallow-sum",
        "swallow-grads", "subnormal",    "huge",         "rising",      "falling",        "zigzag",
        "ties",          "outlier",      "ulp-apart",    "lse-zero",    "entropy-trap",   "far",
        "truncate",      "positive",     "signed-zeros", "full-bits",   "massive",        "low-rank",
        "bit-patterns",  "all-exponents"}) {
    for (const char* seed : {"2", "3", "4"}) {
      add(" seed=" + std::string(seed) + " values=" + values +
          " temperature_per_row=" + (*seed == '4' ? "1" : "0"));
    }
  }
  for (const char* labels :
       {"random", "argmax", "first", "last", "some-ignored", "all-ignored", "ignored-nan", "invalid",
        "argmin", "tile-edge", "last-tile", "same", "distinct", "one-valid", "far-ignored"}) {
    add(" label_dtype=int32 labels=" + std::string(labels));
    add(" label_dtype=int64 labels=" + std::string(labels));
  }
  for (const char* grads :
       {"none", "ones", "random", "first-zero", "wide", "one-hot", "alternating", "tiny"}) {
    add(" grads=" + std::string(grads) + " entropy_grads=" + grads);
  }
  for (const char* special :
       {"hidden-nan", "hidden-inf", "weight-nan", "minus-inf", "minus-inf-label", "all-minus-inf",
        "plus-inf", "temperature", "masked-first", "masked-but-one"}) {
    add(" special=" + std::string(special));
  }
  add(" temperature_per_row=1 temperature_spread=8 rows=broadcast label_stride=0");
  const uint64_t bytes = hash.value();
  EXPECT_EQ(bytes, kGoldenBytes) << std::hex << "0x" << bytes;
}

// Fails if the drawn line does not come back as the recipe, for example because a generator leaves the
// grammar's ranges.
TEST(RegimesTest, DrawnRecipesSurviveTheirLine) {
  for (uint64_t index = 0; index < 4000; ++index) {
    const Recipe recipe = DrawRecipe(2, index);
    Recipe parsed;
    std::string error;
    ASSERT_TRUE(Parse(Format(recipe), &parsed, &error)) << error;
    ASSERT_EQ(parsed, recipe) << Format(recipe);
  }
}

// Fails if two regimes share a name or a reason, or a draw carries another regime's name.
TEST(RegimesTest, EveryRegimeHasANameAReasonAndAGenerator) {
  std::set<std::string_view> names, whys;
  const auto regimes = Regimes();
  for (size_t i = 0; i < regimes.size(); ++i) {
    names.insert(regimes[i].name);
    whys.insert(regimes[i].why);
    EXPECT_THAT(std::string(regimes[i].why), ::testing::Not(::testing::HasSubstr("\n")));
    for (uint64_t index = 0; index < 20; ++index) {
      EXPECT_EQ(DrawRecipe(3, index, regimes[i].name).regime, regimes[i].name);
    }
    EXPECT_EQ(DrawRecipe(3, i).regime, regimes[i].name) << "indices walk over the regimes";
    EXPECT_EQ(DrawRecipe(3, i + regimes.size() * 5).regime, regimes[i].name);
    EXPECT_EQ(DrawRecipe(3, i), DrawRecipe(3, i, regimes[i].name));
  }
  EXPECT_EQ(names.size(), regimes.size());
  EXPECT_EQ(whys.size(), regimes.size());
}

// Level one holds every regime as often as there are families of shapes. All its cases are cheap, and
// their shapes are those of the families. Fails if a regime or a family is missing, or costs as much as
// a search's case may.
TEST(RegimesTest, LevelOneIsEveryRegimeInEveryFamily) {
  std::map<std::string, int64_t> cases;
  std::map<std::string, int64_t> shapes;
  ASSERT_GT(LevelOneCases(), 0);
  for (int64_t index = 0; index < LevelOneCases(); ++index) {
    const Recipe r = DrawLevelOne(9, index);
    EXPECT_EQ(r, DrawLevelOne(9, index));
    ++cases[r.regime];
    shapes["more rows than a grid's"] += r.n > 65'535 ? static_cast<int64_t>(Regimes().size()) : 0;
    EXPECT_LE(r.n * r.v * r.h, 1'500'000) << Format(r);
    shapes["one row"] += r.n == 1 && r.v > 50 ? 1 : 0;
    shapes["deep"] += r.h >= 200 ? 1 : 0;
    shapes["many rows"] += r.n >= 90 ? 1 : 0;
    shapes["a tile"] += r.v % 16 == 0 ? 1 : 0;
    shapes["a column more"] += r.v % 16 == 1 ? 1 : 0;
    shapes["a column less"] += r.v % 16 == 15 ? 1 : 0;
    shapes["least"] += r.n < 4 && r.v < 4 && r.h < 4 ? 1 : 0;
  }
  EXPECT_EQ(cases.size(), Regimes().size());
  for (const auto& [regime, count] : cases) {
    EXPECT_EQ(count, LevelOneCases() / static_cast<int64_t>(Regimes().size())) << regime;
  }
  for (const auto& [what, count] : shapes) {
    EXPECT_GE(count, static_cast<int64_t>(Regimes().size()) / 2) << what;
  }
  EXPECT_NE(DrawLevelOne(9, 3), DrawLevelOne(10, 3));
  EXPECT_THROW(DrawLevelOne(9, -1), std::invalid_argument);
  EXPECT_THROW(DrawLevelOne(9, LevelOneCases()), std::invalid_argument);
}

// Fails if a regime is missing in fuzz/recipe/REGIMES.md, which users read, or has another text there.
TEST(RegimesTest, ThePageAndTheTablesAgree) {
  std::ifstream page(PLUMBLINE_SOURCE_DIR "/fuzz/recipe/REGIMES.md");
  std::vector<std::string> rows, expected;
  for (std::string line; std::getline(page, line);) {
    const size_t last = line.rfind(" | ");  // before the column that only the page has
    if (line.starts_with("| ") && !line.starts_with("| regime")) rows.push_back(line.substr(0, last));
  }
  for (const Regime& r : Regimes()) {
    expected.push_back("| " + std::string(r.name) + " | " + std::string(Name(r.aim)) + " | " +
                       std::string(r.why));
  }
  EXPECT_EQ(rows, expected);
}

TEST(RegimesTest, UnknownNamesAreRefusedByName) {
  EXPECT_THAT([] { DrawRecipe(1, 1, "ragged"); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr("'ragged'")));
  EXPECT_THAT([] { RecipeGen("ragged"); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr("'ragged'")));
}

// Fails if seed or index, either half of them, does not reach the draw.
TEST(RegimesTest, SeedAndIndexBothMatter) {
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40}) {
    for (const uint64_t index : {uint64_t{0}, uint64_t{8}, uint64_t{8} << 40}) {
      seeds.insert(DrawRecipe(seed, index).seed);
    }
  }
  EXPECT_EQ(seeds.size(), 9u);
}

// Fails under the thread sanitizer, or here, if drawing shares state between threads.
TEST(RegimesTest, ThreadsDrawTheSameRecipes) {
  constexpr uint64_t kCount = 2000;
  std::vector<std::vector<Recipe>> drawn(4);
  std::vector<std::thread> threads;
  for (std::vector<Recipe>& mine : drawn) {
    threads.emplace_back([&mine] {
      for (uint64_t index = 0; index < kCount; ++index) mine.push_back(DrawRecipe(4, index));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t index = 0; index < kCount; ++index) {
    const Recipe alone = DrawRecipe(4, index);
    for (const std::vector<Recipe>& mine : drawn) ASSERT_EQ(mine[index], alone);
  }
}

// A campaign's speed rests on the mix of all regimes. In multiply-adds of N x V x H: the median is at
// most 100 000, about one case in a hundred is 10 million or more and none is above 12, and the mean of
// the others is at most 150 000. Elements of weight, which cost as much as many multiply-adds, are
// bounded likewise, and fp32 is rare among the big ones. Fails if a regime is added that slows every
// campaign down, or if big cases vanish.
TEST(RegimesTest, TheMixIsCheap) {
  constexpr size_t kCount = 10'000;
  std::vector<double> costs;
  double big = 0, big_fp32 = 0, rest = 0, weights = 0;
  for (uint64_t index = 0; index < kCount; ++index) {
    const Recipe recipe = DrawRecipe(8, index);
    const auto cost = static_cast<double>(recipe.n * recipe.v * recipe.h);
    ASSERT_LE(cost, 12e6) << Format(recipe);
    costs.push_back(cost);
    if (cost >= 10e6) {
      ++big;
      big_fp32 += recipe.dtype == kernel::DType::kF32 ? 1 : 0;
    } else {
      rest += cost;
      weights += static_cast<double>(recipe.v * recipe.h);
    }
  }
  std::nth_element(costs.begin(), costs.begin() + kCount / 2, costs.end());
  EXPECT_LE(costs[kCount / 2], 100'000);
  EXPECT_GE(costs[kCount / 2], 2'000);
  EXPECT_GE(big / kCount, 0.008);
  EXPECT_LE(big / kCount, 0.015);
  EXPECT_LE(big_fp32, big / 8);
  EXPECT_LE(rest / kCount, 150'000);
  EXPECT_LE(weights / kCount, 25'000);
}

// Sizes must take every path of a tiled kernel, with few large vocabularies, which cost more than their
// multiply-adds. Fails if shapes never leave the first tile, or lose an edge.
TEST(RegimesTest, SizesVary) {
  constexpr uint64_t kCount = 20'000;
  std::map<std::string, int64_t> seen;
  for (uint64_t index = 0; index < kCount; ++index) {
    const Recipe recipe = DrawRecipe(5, index);
    seen["v >= 131072"] += recipe.v >= kLargeVocabulary ? 1 : 0;
    seen["few rows in stretches"] += recipe.n <= 128 && recipe.v > 384 && recipe.h == 512 ? 1 : 0;
    seen["n = 0"] += recipe.n == 0 ? 1 : 0;
    seen["n > 90"] += recipe.n > 90 ? 1 : 0;
    seen["h = 0"] += recipe.h == 0 ? 1 : 0;
    seen["h = 1"] += recipe.h == 1 ? 1 : 0;
    seen["h > 256"] += recipe.h > 256 ? 1 : 0;
    seen["v = 0"] += recipe.v == 0 ? 1 : 0;
    seen["v = 1"] += recipe.v == 1 ? 1 : 0;
    seen["v % 64 = 1"] += recipe.v % 64 == 1 ? 1 : 0;
    seen["v % 64 = 63"] += recipe.v % 64 == 63 ? 1 : 0;
    seen["v % 64 = 0"] += recipe.v % 64 == 0 ? 1 : 0;
    seen["v > 1024"] += recipe.v > 1024 ? 1 : 0;
    seen["v = 5000"] += recipe.v == 5000 ? 1 : 0;
    seen["512 < v"] += recipe.v > 512 ? 1 : 0;
  }
  for (const auto& [what, count] : seen) EXPECT_GE(count, 5) << what;
  EXPECT_GE(seen["512 < v"], static_cast<int64_t>(kCount / 10));
  EXPECT_GE(seen["v >= 131072"], static_cast<int64_t>(kCount / 3000));
  EXPECT_LE(seen["v >= 131072"], static_cast<int64_t>(kCount / 200));
}

// The aim of each regime must show in each of its draws or in a fair share of them. Fails if a regime
// loses its aim to the background.
TEST(RegimesTest, RegimesKeepTheirPoint) {
  constexpr uint64_t kCount = 2000;
  const auto share = [](std::string_view regime, auto&& predicate) {
    int64_t count = 0;
    for (uint64_t index = 0; index < kCount; ++index) {
      count += predicate(DrawRecipe(6, index, regime)) ? 1 : 0;
    }
    return static_cast<double>(count) / static_cast<double>(kCount);
  };
  EXPECT_EQ(share("ragged-tail", [](const Recipe& r) { return r.v % 16 != 0; }), 1);
  EXPECT_GE(share("ragged-tail", [](const Recipe& r) { return r.values == Values::kSmallLse; }), 0.6);
  EXPECT_GE(share("many-rows", [](const Recipe& r) { return r.n > 65'535; }), 0.01);
  EXPECT_EQ(share("many-rows", [](const Recipe& r) { return r.n >= 100; }), 1);
  EXPECT_EQ(share("wide-strides", [](const Recipe& r) { return r.wide != Wide::kNone && r.n > 1; }), 1);
  EXPECT_GE(share("row-order", [](const Recipe& r) { return r.rows == Rows::kReversed; }), 0.4);
  EXPECT_GE(share("row-order", [](const Recipe& r) { return r.label_stride == 0; }), 0.1);
  EXPECT_EQ(share("misaligned", [](const Recipe& r) { return r.offset > 0; }), 1);
  EXPECT_GE(share("missing-outputs", [](const Recipe& r) { return r.want != kWantAll; }), 0.9);
  EXPECT_EQ(
      share("entropy-alone",
            [](const Recipe& r) { return r.grads == Grads::kNone && r.entropy_grads != Grads::kNone; }),
      1);
  EXPECT_EQ(share("mean", [](const Recipe& r) { return r.reduction != kernel::Reduction::kNone; }), 1);
  EXPECT_EQ(share("vocabulary-chunks", [](const Recipe& r) { return r.v >= 1500; }), 1);
  EXPECT_GE(share("row-chunks", [](const Recipe& r) { return r.n >= 40; }), 0.99);
  EXPECT_EQ(share("all-ignored", [](const Recipe& r) { return r.labels == Labels::kAllIgnored; }), 1);
  EXPECT_EQ(share("small-vocabulary", [](const Recipe& r) { return r.v >= 2 && r.v < 16; }), 1);
  EXPECT_GE(share("full-mantissa", [](const Recipe& r) { return r.dtype == kernel::DType::kF32; }),
            0.6);
  EXPECT_EQ(share("masked-tiles",
                  [](const Recipe& r) {
                    return r.special == Special::kMaskedFirst || r.special == Special::kMaskedButOne;
                  }),
            1);
  EXPECT_GE(share("all-negative", [](const Recipe& r) { return r.exp >= 7; }), 0.6);
  EXPECT_EQ(share("all-negative", [](const Recipe& r) { return r.values == Values::kAllNegative; }), 1);
  EXPECT_GE(share("common-offset", [](const Recipe& r) { return r.exp >= 10; }), 0.5);
  EXPECT_GE(
      share("confident-label",
            [](const Recipe& r) { return r.labels == Labels::kArgmax && r.grads != Grads::kNone; }),
      0.6);
  EXPECT_GE(share("exact-dot", [](const Recipe& r) { return r.values == Values::kLattice; }), 0.8);
  EXPECT_GE(share("cancellation", [](const Recipe& r) { return r.values == Values::kSwallow; }), 0.2);
  EXPECT_GE(share("cancellation", [](const Recipe& r) { return r.values == Values::kCancel; }), 0.5);
  EXPECT_GE(share("ignored-rows", [](const Recipe& r) { return r.labels == Labels::kIgnoredNaN; }),
            0.3);
  EXPECT_GE(share("ignored-rows", [](const Recipe& r) { return r.labels == Labels::kAllIgnored; }),
            0.05);
  EXPECT_GE(share("upstream-gradients", [](const Recipe& r) { return r.grads == Grads::kFirstZero; }),
            0.1);
  EXPECT_GE(
      share("upstream-gradients",
            [](const Recipe& r) { return r.grads == Grads::kNone && r.entropy_grads != Grads::kNone; }),
      0.05);
  EXPECT_EQ(
      share("upstream-gradients",
            [](const Recipe& r) { return r.grads == Grads::kNone && r.entropy_grads == Grads::kNone; }),
      0);
}

// True if the regime is about this option, which is then the same in all of its recipes.
bool IsFixed(std::string_view regime, std::string_view option) {
  constexpr std::pair<std::string_view, std::string_view> kFixed[] = {
      {"alternating-gradients", "stride 0"},
      {"extreme-temperature", "no temperature"},
      {"policy-gradients", "stride 0"},
      {"temperature-range", "no temperature"},
      {"temperatures", "no temperature"}};
  return std::find(std::begin(kFixed), std::end(kFixed), std::pair(regime, option)) != std::end(kFixed);
}

// Every option varies in the background of every regime. Fails if a regime fixes one.
TEST(RegimesTest, BackgroundVariesEverywhere) {
  using kernel::DType;
  using kernel::Reduction;
  for (const Regime& regime : Regimes()) {
    std::map<std::string, int64_t> seen;
    for (uint64_t index = 0; index < 1500; ++index) {
      const Recipe r = DrawRecipe(7, index, regime.name);
      seen["bf16"] += r.dtype == DType::kBf16 ? 1 : 0;
      seen["fp16"] += r.dtype == DType::kF16 ? 1 : 0;
      seen["fp32"] += r.dtype == DType::kF32 ? 1 : 0;
      seen["int32"] += r.label_dtype == DType::kI32 ? 1 : 0;
      seen["int64"] += r.label_dtype == DType::kI64 ? 1 : 0;
      seen["hidden-major"] += r.hidden_major ? 1 : 0;
      seen["vocab-major"] += r.hidden_major ? 0 : 1;
      seen["pad"] += r.pad > 0 ? 1 : 0;
      seen["no pad"] += r.pad == 0 ? 1 : 0;
      seen["temperature"] += r.temperature != 1 ? 1 : 0;
      seen["no temperature"] += r.temperature == 1 && !r.temperature_per_row ? 1 : 0;
      seen["temperature per row"] += r.temperature_per_row ? 1 : 0;
      seen["sum"] += r.reduction == Reduction::kSum ? 1 : 0;
      seen["mean"] += r.reduction == Reduction::kMean ? 1 : 0;
      seen["stride 0"] += r.grad_stride == 0 ? 1 : 0;
      seen["stride 2"] += r.grad_stride == 2 ? 1 : 0;
      seen["fp32 grads"] += r.fp32_grads ? 1 : 0;
      seen["entropy grads"] += r.entropy_grads != Grads::kNone ? 1 : 0;
    }
    for (const auto& [what, count] : seen) {
      EXPECT_GE(count, IsFixed(regime.name, what) ? 0 : 25) << regime.name << ": " << what;
    }
  }
}

// Fails if small sizes collapse to one shape: the generator behind a property test must draw whole
// recipes at every size, not only at RapidCheck's largest.
RC_GTEST_PROP(RegimesTest, GeneratorIgnoresSize, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const rc::Random random(seed);
  RC_ASSERT(RecipeGen("exact-dot")(random, 0).value() ==
            RecipeGen("exact-dot")(random, rc::kNominalSize).value());
}

}  // namespace
}  // namespace plumbline::fuzz
