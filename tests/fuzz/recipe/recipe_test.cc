// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;
using rc::gen::element;
using rc::gen::inRange;

// Draws every field over its whole range, with shapes below the limit on products.
rc::Gen<Recipe> AnyRecipe() {
  const auto shape = rc::gen::tuple(inRange<int64_t>(0, 1 << 14), inRange<int64_t>(0, 1 << 14),
                                    inRange<int64_t>(0, 1 << 13));
  const auto values = rc::gen::pair(rc::gen::cast<Values>(inRange(0, 9)), inRange(-100, 101));
  const auto grads =
      rc::gen::pair(rc::gen::cast<Grads>(inRange(0, 6)), rc::gen::cast<Grads>(inRange(0, 6)));
  // The fraction has 24 random bits: a decimal form with too few digits would not survive.
  const auto temperature =
      rc::gen::apply([](int bits, int exp) { return std::ldexp(static_cast<float>(bits), exp - 24); },
                     inRange(1 << 23, 1 << 24), inRange(-99, 101));
  return rc::gen::apply(
      [](const std::string& regime, uint64_t seed, DType dtype, std::tuple<int64_t, int64_t, int64_t> s,
         std::pair<Values, int> v, Labels labels, DType label_dtype, std::pair<Grads, Grads> g,
         Reduction reduction, float t, std::pair<bool, bool> flags, std::pair<int64_t, int64_t> strides,
         bool fp32) {
        const auto [n, vocab, h] = s;
        return Recipe{
            regime,        seed,           dtype,   n,        vocab,     h, v.first,     v.second,
            labels,        label_dtype,    g.first, g.second, reduction, t, flags.first, flags.second,
            strides.first, strides.second, fp32};
      },
      element<std::string>("free", "ragged-tail", "x", "0-9"), rc::gen::arbitrary<uint64_t>(),
      element(DType::kBf16, DType::kF16, DType::kF32), shape, values,
      rc::gen::cast<Labels>(inRange(0, 7)), element(DType::kI32, DType::kI64), grads,
      element(Reduction::kNone, Reduction::kSum, Reduction::kMean), temperature,
      rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>()),
      rc::gen::pair(inRange<int64_t>(0, 4097), inRange<int64_t>(0, 3)), rc::gen::arbitrary<bool>());
}

// Fails for a key that Format leaves out or Parse drops, two values with one name, a number that loses
// digits (a temperature in decimal), or a form that is not stable.
RC_GTEST_PROP(RecipeTest, ParseInvertsFormat, ()) {
  const Recipe recipe = *AnyRecipe();
  const std::string line = Format(recipe);
  RC_LOG() << line << "\n";
  Recipe parsed;
  std::string error;
  RC_ASSERT(Parse(line, &parsed, &error));
  RC_ASSERT(parsed == recipe);
  RC_ASSERT(Format(parsed) == line);
}

Recipe RecipeOf(std::string_view line) {
  Recipe recipe;
  recipe.seed = 77;  // must not survive: the line says everything
  std::string error;
  EXPECT_TRUE(Parse(line, &recipe, &error)) << error;
  return recipe;
}

// Fails if a key that is left out keeps what was there instead of its default.
TEST(RecipeTest, VersionAloneIsTheDefaults) {
  EXPECT_EQ(RecipeOf("v1"), Recipe{});
  EXPECT_EQ(RecipeOf("  v1  "), Recipe{});
}

// Fails when the grammar drifts from its documentation: this is the header's line, field by field.
TEST(RecipeTest, DocumentedLine) {
  const std::string line =
      "v1 regime=common-offset seed=9f3c dtype=bf16 n=3 v=129 h=8 values=offset exp=16 labels=random "
      "label_dtype=int64 grads=random entropy_grads=none reduction=none temperature=1 "
      "temperature_per_row=0 layout=vocab-major pad=0 grad_stride=1 fp32_grads=0";
  const Recipe recipe = RecipeOf(line);
  EXPECT_EQ(recipe.regime, "common-offset");
  EXPECT_EQ(recipe.seed, 0x9f3cu);
  EXPECT_EQ(recipe.dtype, DType::kBf16);
  EXPECT_EQ(recipe.n, 3);
  EXPECT_EQ(recipe.v, 129);
  EXPECT_EQ(recipe.h, 8);
  EXPECT_EQ(recipe.values, Values::kOffset);
  EXPECT_EQ(recipe.exp, 16);
  EXPECT_EQ(recipe.labels, Labels::kRandom);
  EXPECT_EQ(recipe.grads, Grads::kRandom);
  EXPECT_EQ(recipe.entropy_grads, Grads::kNone);
  EXPECT_EQ(recipe.temperature, 1);
  EXPECT_FALSE(recipe.temperature_per_row);
  EXPECT_FALSE(recipe.hidden_major);
  EXPECT_EQ(Format(recipe), line);
}

// Fails if keys must stand in one order, or decimal temperatures are read as hexadecimal or not at all.
TEST(RecipeTest, OtherSpellings) {
  EXPECT_EQ(RecipeOf("v1 h=2 n=5").n, 5);
  EXPECT_EQ(RecipeOf("v1 temperature=0.5").temperature, 0.5F);
  EXPECT_EQ(RecipeOf("v1 temperature=10").temperature, 10);
  EXPECT_EQ(RecipeOf("v1 temperature=0x1p+4").temperature, 16);
  EXPECT_EQ(RecipeOf("v1 seed=ffffffffffffffff").seed, ~uint64_t{0});
  EXPECT_TRUE(RecipeOf("v1 layout=hidden-major").hidden_major);
}

// One token at a time. Fails if something is accepted, or the refusal does not name the token.
TEST(RecipeTest, RefusalsNameTheToken) {
  const std::vector<std::pair<std::string, std::string>> refusals = {
      {"", "v1"},
      {"v2 n=1", "'v2'"},
      {"n=1", "'n=1'"},
      {"v1 n", "'n'"},
      {"v1 v1", "'v1'"},
      {"v1 lines=3", "'lines=3': unknown key"},
      {"v1 n=1 n=1", "'n=1': key given twice"},
      {"v1 n=-1", "'n=-1'"},
      {"v1 n=1x", "'n=1x'"},
      {"v1 n=", "'n='"},
      {"v1 n=+1", "'n=+1'"},
      {"v1 n=0x10", "'n=0x10'"},
      {"v1 n=99999999999999999999", "'n=99999999999999999999'"},
      {"v1 h=268435457", "'h=268435457'"},
      {"v1 n=16385 v=16385 h=3", "n*v = 268468225"},
      {"v1 n=65537 v=65536 h=2", "n*v = 4295032832"},
      {"v1 n=16385 v=1 h=16384", "n*(h+pad) = 268451840"},
      {"v1 n=1 v=65536 h=4095 pad=4", "v*(h+pad) = 268632064"},
      {"v1 dtype=int32", "'dtype=int32'"},
      {"v1 dtype=BF16", "'dtype=BF16'"},
      {"v1 label_dtype=fp32", "'label_dtype=fp32'"},
      {"v1 values=normal", "'values=normal'"},
      {"v1 exp=101", "'exp=101'"},
      {"v1 exp=-101", "'exp=-101'"},
      {"v1 exp=1.5", "'exp=1.5'"},
      {"v1 labels=none", "'labels=none'"},
      {"v1 grads=argmax", "'grads=argmax'"},
      {"v1 reduction=max", "'reduction=max'"},
      {"v1 temperature=0", "'temperature=0'"},
      {"v1 temperature=-1", "'temperature=-1'"},
      {"v1 temperature=nan", "'temperature=nan'"},
      {"v1 temperature=inf", "'temperature=inf'"},
      {"v1 temperature=0x1p+101", "'temperature=0x1p+101'"},
      {"v1 temperature=0x", "'temperature=0x'"},
      {"v1 temperature=1,5", "'temperature=1,5'"},
      {"v1 temperature_per_row=yes", "'temperature_per_row=yes'"},
      {"v1 layout=row-major", "'layout=row-major'"},
      {"v1 pad=4097", "'pad=4097'"},
      {"v1 grad_stride=3", "'grad_stride=3'"},
      {"v1 fp32_grads=2", "'fp32_grads=2'"},
      {"v1 seed=g", "'seed=g'"},
      {"v1 seed=10000000000000000", "'seed=10000000000000000'"},
      {"v1 seed=", "'seed='"},
      {"v1 regime=", "'regime='"},
      {"v1 regime=A", "'regime=A'"},
      {"v1 regime=a=b", "'regime=a=b'"},
      {"v1\tn=1", "'v1\tn=1'"},
  };
  for (const auto& [line, expected] : refusals) {
    Recipe recipe;
    recipe.n = 41;
    std::string error;
    EXPECT_FALSE(Parse(line, &recipe, &error)) << line;
    EXPECT_THAT(error, ::testing::HasSubstr(expected)) << line;
    EXPECT_EQ(recipe.n, 41) << "a refused line must leave the recipe alone: " << line;
  }
}

// Fails for a key after `special` that Format leaves out although it differs from its default, or
// writes although it does not, or for a name that does not come back.
TEST(RecipeTest, LaterKeysAreWrittenWhereTheyDiffer) {
  for (const char* keys :
       {"special=masked-first", "special=masked-but-one", "temperature_spread=8", "want=none",
        "want=entropy", "want=lse,grad_hidden", "want=entropy,lse,grad_weight", "rows=reversed",
        "rows=broadcast", "label_stride=0", "label_stride=3", "offset=7", "wide=hidden", "wide=weight",
        "wide=labels", "wide=grads", "temperature_stride=2", "output_stride=64", "gradient_step=2",
        "single_stride=5",
        "special=plus-inf temperature_spread=2 want=lse rows=reversed label_stride=2 offset=1 "
        "wide=weight temperature_stride=3 output_stride=5"}) {
    const std::string line = Format(Recipe{}) + " " + keys;
    EXPECT_EQ(Format(RecipeOf(line)), line);
  }
  EXPECT_EQ(
      Format(RecipeOf("v1 temperature_spread=1 want=grad_weight,grad_hidden,lse,entropy rows=forward "
                    "label_stride=1 offset=0 wide=none temperature_stride=1 output_stride=1 "
                    "gradient_step=1 single_stride=1")),
      Format(Recipe{}));
}

TEST(RecipeTest, LaterKeysAreRefusedByName) {
  for (const char* token :
       {"temperature_spread=41", "temperature_spread=-1", "want=all", "want=", "want=lse,",
        "want=lse,loss", "rows=up", "label_stride=65", "label_stride=-1", "offset=65", "wide=all",
        "temperature_stride=0", "output_stride=0", "output_stride=65", "gradient_step=9",
        "single_stride=0"}) {
    Recipe recipe;
    std::string error;
    EXPECT_FALSE(Parse("v1 " + std::string(token), &recipe, &error)) << token;
    EXPECT_THAT(error, ::testing::HasSubstr(token));
  }
}

// Fails if the limit is exclusive, or pad is counted for n*v.
TEST(RecipeTest, LargestShapesAreAccepted) {
  EXPECT_EQ(RecipeOf("v1 n=16384 v=16384 h=8 pad=100").v, 16384);
  EXPECT_EQ(RecipeOf("v1 n=1 v=65536 h=4096").h, 4096);
  EXPECT_EQ(RecipeOf("v1 n=65536 v=65536 h=2").n, 65536);
}

}  // namespace
}  // namespace plumbline::fuzz
