// SPDX-License-Identifier: Apache-2.0
//
// What the mix of all regimes draws at its edges: sizes, temperatures, gradients, strides and labels
// that no other test would miss.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "fuzz/base/hash.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/generate.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kTwo31 = int64_t{1} << 31;

// The bytes of labels and gradients that kGoldenBytes (regimes_test.cc) does not have. Fails if a line
// that has one of these kinds comes to mean another problem.
constexpr uint64_t kGoldenLaterBytes = 0x87b2281b5df5cd12u;

TEST(Drawn, GoldenLaterBytes) {
  Fnv1a hash;
  const auto add = [&](const std::string& keys) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
      Recipe recipe;
      std::string error;
      ASSERT_TRUE(Parse("v1 n=50 v=67 h=3 dtype=" + std::string(dtype) + keys, &recipe, &error))
          << error;
      const OwnedProblem problem = Expand(recipe);
      hash.Add(problem.labels.bytes);
      for (const auto* tensor : {&problem.grad_logprob, &problem.grad_entropy}) {
        if (tensor->has_value()) hash.Add((*tensor)->bytes);
      }
    }
  };
  for (const char* labels : {"prompts", "padded", "packed"}) {
    add(" label_dtype=int32 labels=" + std::string(labels));
    for (const char* grads : {"extreme", "signed-zeros", "advantages", "clipped", "masked"}) {
      add(" labels=" + std::string(labels) + " grads=" + grads + " entropy_grads=" + grads);
    }
  }
  const uint64_t bytes = hash.value();
  EXPECT_EQ(bytes, kGoldenLaterBytes) << std::hex << "0x" << bytes;
}

// Fails if campaigns stop drawing one of these, or draw it so often that they slow down. The bounds are
// five standard deviations from the expected number, so that a right mix fails once in a million seeds;
// the seed is fixed.
TEST(Drawn, TheMixReachesItsEdges) {
  constexpr uint64_t kCount = 100'000;
  std::map<std::string, int64_t> seen;
  for (uint64_t index = 0; index < kCount; ++index) {
    const Recipe r = DrawRecipe(12, index);
    seen["2100 <= H, V <= 4096"] += r.h >= 2'100 && r.h <= 8'192 && r.v <= 4'096 ? 1 : 0;
    seen["H = 8192"] += r.h == 8'192 ? 1 : 0;
    seen["H >= 2100, V > 1000"] += r.h >= 2'100 && r.v > 1'000 ? 1 : 0;
    seen["N >= 64, V >= 1024, H >= 64"] += r.n >= 64 && r.v >= 1'024 && r.h >= 64 ? 1 : 0;
    for (const int64_t v : {256'000, 256'001, 262'144, 262'145}) {
      seen["V = " + std::to_string(v)] += r.v == v && r.h <= 64 ? 1 : 0;
    }
    seen["V H beyond 2^31 by strides"] += r.v >= 1'000 && r.wide == Wide::kWeight ? 1 : 0;
    seen["T <= 2^-75"] += r.temperature <= 0x1p-75F ? 1 : 0;
    seen["T >= 2^75"] += r.temperature >= 0x1p75F ? 1 : 0;
    seen["extreme gradients"] += r.grads == Grads::kExtreme ? 1 : 0;
    seen["zeros in upstream gradients"] += r.grads == Grads::kSignedZeros ? 1 : 0;
    const bool by_row = r.temperature_per_row && r.temperature_stride > 1;
    seen["strided temperatures"] += by_row ? 1 : 0;
    seen["strided outputs"] += r.output_stride > 1 ? 1 : 0;
    const bool gradients = r.grads != Grads::kNone || r.entropy_grads != Grads::kNone;
    seen["sparse gradients"] += gradients && r.gradient_step > 1 ? 1 : 0;
    seen["single strides, H = 1"] += r.h == 1 && r.v > 1 && r.single_stride > 1 ? 1 : 0;
    seen["strided labels"] += r.label_stride > 1 ? 1 : 0;
    seen["N >= 512"] += r.n >= 512 ? 1 : 0;
    seen["prompts"] += r.labels == Labels::kPrompts ? 1 : 0;
    seen["padded"] += r.labels == Labels::kPadded ? 1 : 0;
    seen["packed"] += r.labels == Labels::kPacked ? 1 : 0;
    seen["one live row in 1000"] += r.labels == Labels::kOneValid && r.n >= 1'000 ? 1 : 0;
    seen["advantages"] += r.grads == Grads::kAdvantages ? 1 : 0;
    seen["clipped"] += r.grads == Grads::kClipped ? 1 : 0;
    seen["masked"] += r.grads == Grads::kMasked ? 1 : 0;
  }
  const std::map<std::string, double> least = {{"2100 <= H, V <= 4096", 1'300},
                                               {"N >= 64, V >= 1024, H >= 64", 500},
                                               {"N >= 512", 1'500},
                                               {"one live row in 1000", 20},
                                               {"H >= 2100, V > 1000", 3},
                                               {"V = 256000", 2},
                                               {"V = 256001", 2},
                                               {"V = 262144", 2},
                                               {"V = 262145", 2},
                                               {"V H beyond 2^31 by strides", 12}};
  for (const auto& [what, count] : seen) {
    const auto entry = least.find(what);
    EXPECT_GE(static_cast<double>(count), entry != least.end() ? entry->second : 100) << what;
  }
  EXPECT_LE(seen["N >= 64, V >= 1024, H >= 64"], 1'000);
}

// Fails if N V beyond 2^31 is drawn more often than once in 50 000 draws, which is half of a campaign's
// cases, in a short campaign, or never.
TEST(Drawn, MoreLogitsThan2To31AreRare) {
  const uint64_t walk = Regimes().size();
  int64_t beyond = 0, with_gradients = 0;
  for (const uint64_t seed : {13, 14, 15}) {
    for (uint64_t index = 0; index < 400'000; ++index) {
      if (Regimes()[index % walk].name != "many-logits") continue;
      const Recipe r = DrawRecipe(seed, index);
      EXPECT_EQ(r.regime, "many-logits");
      if (r.n * r.v < kTwo31) {
        EXPECT_LE(r.n * r.v * r.h, 500'000);
        continue;
      }
      ++beyond;
      with_gradients += r.grads != Grads::kNone || r.entropy_grads != Grads::kNone ? 1 : 0;
      EXPECT_GE(index, 100'000U);
      EXPECT_LE(r.h, kManyLogitsHidden);
      Recipe parsed;
      std::string error;
      EXPECT_TRUE(Parse(Format(r), &parsed, &error)) << error;
    }
  }
  EXPECT_EQ(beyond, 3 * 6);
  EXPECT_GT(with_gradients, 2);
  EXPECT_LT(with_gradients, beyond / 2 + 4);
}

// Level one is for a first look: fails if a case there takes seconds.
TEST(Drawn, LevelOneHasNoneOfTheLargest) {
  for (int64_t index = 0; index < LevelOneCases(); ++index) {
    const Recipe r = DrawLevelOne(14, index);
    EXPECT_LE(r.n * r.v, int64_t{1} << 22) << Format(r);
    EXPECT_LE(r.v * r.h, int64_t{1} << 20) << Format(r);
  }
}

// Fails if g / T, g or a gradient's largest term overflows where nothing else does, or if the range is
// narrower than it is said to be.
TEST(Drawn, ExtremeGradientsFillTheirRangeAndNoMore) {
  double least = 1, largest = 0;
  for (uint64_t index = 0; index < 3'000; ++index) {
    for (const char* regime : {"gradient-range", "temperature-range"}) {
      const Recipe r = DrawRecipe(15, index, regime);
      if (r.n * r.v * r.h > 100'000) continue;
      const OwnedProblem problem = Expand(r);
      for (const auto* grads : {&problem.grad_logprob, &problem.grad_entropy}) {
        for (int64_t i = 0; *grads && i < (*grads)->size(); ++i) {
          const double g = std::fabs((*grads)->GetFloat(i));
          double t = 1;
          if (problem.temperature) {
            t = problem.temperature->GetFloat(
                problem.temperature->shape.empty() ? 0 : i % problem.temperature->size());
          }
          if ((*grads)->shape.empty()) t = 1;
          EXPECT_LT(g / t, 0x1p121) << Format(r);
          if (g > 0) least = std::min(least, g);
          largest = std::max(largest, g);
        }
      }
    }
  }
  EXPECT_EQ(least, 0x1p-140);
  EXPECT_EQ(largest, 0x1p120);
}

}  // namespace
}  // namespace plumbline::fuzz
