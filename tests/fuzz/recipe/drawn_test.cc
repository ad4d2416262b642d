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

// Fails if N V beyond 2^31 is drawn more often than once in some 100 000 cases of all regimes, or
// never.
TEST(Drawn, MoreLogitsThan2To31AreRare) {
  constexpr uint64_t kCount = 100'000;
  int64_t beyond = 0;
  for (uint64_t index = 0; index < kCount; ++index) {
    const Recipe r = DrawRecipe(13, index, "many-logits");
    if (r.n * r.v < kTwo31) continue;
    ++beyond;
    EXPECT_LE(r.h, kManyLogitsHidden);
    Recipe parsed;
    std::string error;
    EXPECT_TRUE(Parse(Format(r), &parsed, &error)) << error;
  }
  const double share = static_cast<double>(beyond) / kCount / static_cast<double>(Regimes().size());
  EXPECT_GT(share, 0.5e-5);
  EXPECT_LT(share, 2e-5);
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
