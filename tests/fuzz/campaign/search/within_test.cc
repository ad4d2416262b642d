// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/search/within.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/campaign/search/palette.h"
#include "fuzz/campaign/search/target_draws.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

struct Limited {
  const char* name;
  std::function<void(Capabilities&)> limit;
};

void LikeATritonKernel(Capabilities& c) {
  c.dtypes = {DType::kBf16};
  c.hidden_multiple = 128;
  c.hidden_major = c.label_int32 = c.strided_inputs = c.ignore_index = c.negative_strides = false;
  c.first_invalid_row = c.empty_extents = c.invalid_labels = c.special_values = false;
  c.temperature = TemperatureSupport::kNone;
  c.base_alignment = c.row_alignment = 16;
}

// Each capability alone at its narrowest, multiples, and sets as real kernels have them.
const std::vector<Limited>& Sets() {
  using C = Capabilities&;
  static const std::vector<Limited> sets = {
      {"bf16", [](C c) { c.dtypes = {DType::kBf16}; }},
      {"fp32", [](C c) { c.dtypes = {DType::kF32}; }},
      {"vocab-major", [](C c) { c.hidden_major = false; }},
      {"hidden-major", [](C c) { c.vocab_major = false; }},
      {"int64", [](C c) { c.label_int32 = false; }},
      {"no temperature", [](C c) { c.temperature = TemperatureSupport::kNone; }},
      {"one temperature", [](C c) { c.temperature = TemperatureSupport::kScalar; }},
      {"none", [](C c) { c.reductions = {Reduction::kNone}; }},
      {"mean", [](C c) { c.reductions = {Reduction::kMean}; }},
      {"no entropy", [](C c) { c.entropy = false; }},
      {"contiguous", [](C c) { c.strided_inputs = false; }},
      {"no negative strides", [](C c) { c.negative_strides = false; }},
      {"no broadcast", [](C c) { c.zero_stride_grads = false; }},
      {"no ignored rows", [](C c) { c.ignore_index = false; }},
      {"no invalid labels", [](C c) { c.invalid_labels = false; }},
      {"no special values", [](C c) { c.special_values = false; }},
      {"no empty extents", [](C c) { c.empty_extents = false; }},
      {"bases of 64", [](C c) { c.base_alignment = 64; }},
      {"rows of 64", [](C c) { c.row_alignment = 64; }},
      {"rows of 64, contiguous",
       [](C c) {
         c.row_alignment = 64;
         c.strided_inputs = false;
       }},
      {"H 256", [](C c) { c.hidden_multiple = 256; }},
      {"V 256", [](C c) { c.vocab_multiple = 256; }},
      {"N 256", [](C c) { c.rows_multiple = 256; }},
      {"H 100", [](C c) { c.hidden_multiple = 100; }},
      {"8, 8, 8", [](C c) { c.hidden_multiple = c.vocab_multiple = c.rows_multiple = 8; }},
      {"triton", LikeATritonKernel},
      {"triton, mean, 8",
       [](C c) {
         LikeATritonKernel(c);
         c.reductions = {Reduction::kMean, Reduction::kSum};
         c.rows_multiple = c.vocab_multiple = 8;
         c.entropy = c.lse = false;
       }},
  };
  return sets;
}

TargetDraws DrawsOf(const Limited& limited, int64_t palette = 0) {
  Capabilities can;
  limited.limit(can);
  std::vector<std::string> regimes;
  for (const Regime& regime : Regimes()) regimes.emplace_back(regime.name);
  return {can, regimes, 1, palette};
}

bool IsSmall(const Recipe& r) {
  return r.n * (r.h + 1) + r.v * (r.h + 1) < 60'000 && r.n * r.v < 100'000 && r.wide == Wide::kNone;
}

// Fails if a drawn case needs more than the target can do, whatever the capability: each such case is
// skipped.
TEST(Within, NoDrawnCaseIsSkipped) {
  for (const Limited& limited : Sets()) {
    for (const int64_t palette : {0, 35}) {
      Description target;
      limited.limit(target.capabilities);
      const TargetDraws draws = DrawsOf(limited, palette);
      int small = 0;
      for (uint64_t i = 0; i < 300; ++i) {
        const Recipe r = draws.Of(DrawRecipe(3, i));
        std::string error;
        Recipe again;
        ASSERT_TRUE(Parse(Format(r), &again, &error)) << limited.name << ": " << error;
        if (!IsSmall(r)) continue;
        ++small;
        const OwnedProblem asked = WithoutWhatItLacks(target.capabilities, Expand(r));
        EXPECT_EQ(WhySkipped(target, asked), std::nullopt) << limited.name << ": " << Format(r);
      }
      EXPECT_GT(small, palette == 0 ? 45 : 10) << limited.name;
    }
  }
}

// Fails if multiples keep a target from large vocabularies, from tails or from depth. A large
// vocabulary is one draw in 800 of other targets: of 8 000 it is in none once in 20 000.
TEST(Within, LargeVocabulariesTailsAndDepthAreReached) {
  for (const Limited& limited : Sets()) {
    Capabilities can;
    limited.limit(can);
    const TargetDraws draws = DrawsOf(limited);
    int large = 0, tails = 0, deep = 0;
    for (uint64_t i = 0; i < 8'000; ++i) {
      const Recipe r = draws.Of(DrawRecipe(5, i));
      large += r.v >= kLargeVocabulary ? 1 : 0;
      // A tail of one multiple, or short of one, in tiles of twice the multiple and of 16 at least.
      const int64_t tile = std::max<int64_t>(16, 2 * can.vocab_multiple), rest = r.v % tile;
      tails += rest == can.vocab_multiple || rest == tile - can.vocab_multiple ? 1 : 0;
      deep += r.h >= 2'048 ? 1 : 0;
    }
    EXPECT_GT(large, 0) << limited.name;
    EXPECT_GT(tails, 333) << limited.name;
    EXPECT_GT(deep, 33) << limited.name;
  }
}

// Fails if a vocabulary of kLargeVocabulary is cut where a case of it may cost no more than kMostKept,
// or if one costs more.
TEST(Within, NoLargeVocabularyIsCut) {
  const std::vector<Limited> sets = {{"H 128", [](Capabilities& c) { c.hidden_multiple = 128; }},
                                     {"H 256", [](Capabilities& c) { c.hidden_multiple = 256; }},
                                     {"N 256", [](Capabilities& c) { c.rows_multiple = 256; }}};
  for (const Limited& limited : sets) {
    Capabilities can;
    limited.limit(can);
    const TargetDraws draws = DrawsOf(limited);
    int drawn = 0, kept = 0;
    for (uint64_t i = 0; i < 8'000; ++i) {
      const Recipe asked = DrawRecipe(5, i);
      if (asked.v < kLargeVocabulary) continue;
      // The next multiple of V may be above it.
      if (CostOf(can.rows_multiple, asked.v + 256, can.hidden_multiple) > kMostKept) continue;
      ++drawn;
      const Recipe r = draws.Of(asked);
      kept += r.v >= kLargeVocabulary ? 1 : 0;
      EXPECT_LE(CostOf(r.n, r.v, r.h), kMostKept) << limited.name << ": " << Format(r);
    }
    EXPECT_GT(drawn, 5);
    EXPECT_GE(kept, drawn - 1) << limited.name;  // one draw is deep by its regime
  }
}

// Fails if a target that can do everything, or only lacks outputs, gets other cases than before.
TEST(Within, WhoCanDoEverythingHasTheDrawsAsTheyAre) {
  const TargetDraws all = DrawsOf({"all", [](Capabilities&) {}});
  const TargetDraws outputs = DrawsOf({"outputs", [](Capabilities& c) {
                                         c.lse = c.grad_weight = c.fp32_grads = false;
                                         c.first_invalid_row = c.deterministic = false;
                                       }});
  for (uint64_t i = 0; i < 2'000; ++i) {
    const Recipe r = DrawRecipe(7, i);
    EXPECT_EQ(all.Of(r), r);
    EXPECT_EQ(outputs.Of(r), r);
  }
  EXPECT_TRUE(all.levels().empty());
}

// Fails if a regime is drawn that the target leaves nothing of, or one is given up that it can do.
TEST(Within, RegimesOutOfReachAreReplaced) {
  Capabilities can;
  can.invalid_labels = can.special_values = can.strided_inputs = false;
  for (const char* regime : {"invalid-labels", "special-values", "row-order", "wide-strides"}) {
    EXPECT_FALSE(Reaches(can, regime)) << regime;
  }
  for (const char* regime : {"edges", "misaligned", "confident-label", "ignored-rows"}) {
    EXPECT_TRUE(Reaches(can, regime)) << regime;
  }
  const TargetDraws draws = DrawsOf({"", [&](Capabilities& c) { c = can; }});
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(Reaches(can, draws.Of(DrawRecipe(1, i, "invalid-labels")).regime));
  }
}

// Fails if a level that the target lacks is planned for, or one is marked as covered that its case
// lost.
TEST(Within, LevelsThatAreLackingAreNeitherPlannedNorMarked) {
  const TargetDraws draws = DrawsOf({"", [](Capabilities& c) { c.dtypes = {DType::kF16}; }});
  const auto& dtypes = draws.levels()[static_cast<size_t>(Factor::kDType)];
  EXPECT_EQ(dtypes, (std::vector<bool>{false, true, false}));
  Levels row;
  row.fill(kByRegime);
  row[0] = 0;
  row[static_cast<size_t>(Factor::kDType)] = 0;
  const Levels has = draws.LevelsOf(row, draws.Of(DrawWithLevels(1, 1, row)));
  EXPECT_EQ(has[static_cast<size_t>(Factor::kDType)], kByRegime);
  EXPECT_EQ(has[0], 0);
}

// Fails if a palette has other shapes than the target can do, if a case has a shape beside it, or if
// 35 shapes miss a pair of classes of V and N.
TEST(Palette, HoldsShapesThatTheTargetCanDo) {
  const Limited triton{"triton", LikeATritonKernel};
  const TargetDraws draws = DrawsOf(triton, 35);
  Capabilities can;
  LikeATritonKernel(can);
  const Palette palette(1, 35, can);
  int64_t large = 0, single = 0;
  for (const Palette::Shape& shape : palette.shapes()) {
    EXPECT_EQ(shape.h % 128, 0);
    EXPECT_GT(shape.n, 0);
    large += shape.v >= kLargeVocabulary ? 1 : 0;
    single += shape.n == 1 ? 1 : 0;
  }
  EXPECT_GE(large, 5);
  EXPECT_GE(single, 7);
  for (uint64_t i = 0; i < 500; ++i) {
    const Recipe r = draws.Of(DrawRecipe(9, i));
    const Palette::Shape shape{r.n, r.v, r.h};
    EXPECT_NE(std::find(palette.shapes().begin(), palette.shapes().end(), shape),
              palette.shapes().end());
  }
}

// Fails if multiples leave a palette without vocabularies from 9 500 or from 131 072.
TEST(Palette, HasItsVocabulariesInMultiples) {
  const std::vector<Limited> sets = {{"N 64", [](Capabilities& c) { c.rows_multiple = 64; }},
                                     {"N 256", [](Capabilities& c) { c.rows_multiple = 256; }},
                                     {"H 256", [](Capabilities& c) { c.hidden_multiple = 256; }},
                                     {"N 8, H 128", [](Capabilities& c) {
                                        c.rows_multiple = 8;
                                        c.hidden_multiple = 128;
                                      }}};
  for (const Limited& limited : sets) {
    Capabilities can;
    limited.limit(can);
    const Palette palette(1, 35, can);
    int64_t large = 0, huge = 0;
    for (const Palette::Shape& shape : palette.shapes()) {
      EXPECT_LE(CostOf(shape.n, shape.v, shape.h), kMostKept) << limited.name;
      large += shape.v >= 9'500 && shape.v < 50'000 ? 1 : 0;
      huge += shape.v >= kLargeVocabulary ? 1 : 0;
    }
    EXPECT_EQ(large, 5) << limited.name;
    EXPECT_EQ(huge, 5) << limited.name;
  }
}

// Fails if the cases of an inference lack a dtype or a reduction, many rows, many columns or gradients,
// or are too large for it.
TEST(Palette, OfSmallTellsRoundingsApart) {
  const Capabilities can;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Palette palette = Palette::OfSmall(seed, 10, can, 8192, 1 << 18);
    int64_t rows = 0, columns = 0;
    for (const Palette::Shape& shape : palette.shapes()) {
      EXPECT_LE(shape.n * shape.v, 8192) << seed;
      EXPECT_LE(shape.n * shape.v * shape.h, 1 << 18) << seed;
      rows = std::max(rows, shape.n);
      columns = std::max(columns, shape.v);
    }
    EXPECT_GT(rows, 128) << seed;
    EXPECT_GE(columns, 1'500) << seed;
    std::set<std::pair<kernel::DType, bool>> seen;
    for (uint64_t i = 0; i < 300; ++i) {
      Recipe r = DrawRecipe(seed, i);
      palette.Place(&r);
      seen.insert({r.dtype, r.reduction != kernel::Reduction::kNone});
      EXPECT_TRUE(r.grads != Grads::kNone || r.entropy_grads != Grads::kNone) << seed;
    }
    EXPECT_EQ(seen.size(), 2 * can.dtypes.size()) << seed;
  }
}

// What a kernel is compiled for, by classes of extents.
using Specialization = std::array<int64_t, 18>;
Specialization SpecializationOf(const Recipe& r) {
  const auto of = [](int64_t extent) { return extent == 1 ? 1 : extent % 16 == 0 ? 16 : 0; };
  return {of(r.n),
          of(r.v),
          static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(r.v))),
          static_cast<int64_t>(r.dtype),
          static_cast<int64_t>(r.label_dtype),
          static_cast<int64_t>(r.reduction),
          r.grads == Grads::kNone,
          r.entropy_grads == Grads::kNone,
          r.hidden_major,
          r.pad,
          r.label_stride,
          r.offset,
          r.temperature_stride,
          r.output_stride,
          r.gradient_step,
          r.single_stride,
          static_cast<int64_t>(r.rows),
          r.fp32_grads};
}

// Fails if cases have types, strides or upstream gradients beside those of the palette's entries, each
// of which a target compiles for; or if a palette by classes has the shapes of its entries alone.
TEST(Palette, ByClassHasFewSpecializationsAndManyShapes) {
  constexpr int64_t kEntries = 12;
  const TargetDraws draws(Capabilities{}, {}, 1, kEntries, true);
  std::set<Specialization> specializations;
  std::set<std::array<int64_t, 3>> shapes;
  for (uint64_t i = 0; i < 3'000; ++i) {
    const Recipe r = draws.Of(DrawRecipe(9, i));
    specializations.insert(SpecializationOf(r));
    shapes.insert({r.n, r.v, r.h});
  }
  EXPECT_LE(specializations.size(), static_cast<size_t>(kEntries));
  EXPECT_GE(shapes.size(), 300u);
}

// Fails if cases of small vocabularies are made large: two entries in seven are, and take most of the
// time.
TEST(Palette, MakesNoVocabularyLarge) {
  const TargetDraws draws(Capabilities{}, {}, 1, 12, true);
  int drawn = 0, large = 0;
  for (uint64_t i = 0; i < 3'000; ++i) {
    const Recipe r = DrawRecipe(9, i);
    const bool is = r.v >= 9'500;
    drawn += is ? 1 : 0;
    if (draws.Of(r).v < 9'500) continue;
    EXPECT_TRUE(is) << Format(r);
    ++large;
  }
  EXPECT_GE(large, drawn / 2);
}

TEST(Palette, SizeFollowsTheTimeOfAFirstCall) {
  EXPECT_EQ(PaletteSize(1, 300, 0), 24);
  EXPECT_EQ(PaletteSize(100, 300, 0), kLeastPalette);
  EXPECT_EQ(PaletteSize(1e-9, 300, 0), kMostPalette);
  EXPECT_EQ(PaletteSize(1, 300, 5'000), 250);
}

}  // namespace
}  // namespace plumbline::fuzz
