// SPDX-License-Identifier: Apache-2.0

#include "fuzz/regimes.h"

#include <rapidcheck.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/philox.h"
#include "fuzz/recipe_gen.h"

namespace plumbline::fuzz {

namespace {

constexpr std::array<Regime, 16> kRegimes = {{
    {"ragged-tail", Aim::kSharp,
     "V is no multiple of a tile and lse is small: a column past the end, read as 0, outweighs the "
     "real ones"},
    {"all-negative", Aim::kSharp,
     "every logit is far below 0: a running maximum that starts at 0 underflows all of them"},
    {"common-offset", Aim::kSharp,
     "exact integer logits share a large offset: x_y - lse keeps only what the offset leaves of 24 "
     "bits"},
    {"confident-label", Aim::kSharp,
     "the label has all but 2^-k of the probability: p rounded before 1 is subtracted loses the "
     "gradient"},
    {"exact-dot", Aim::kSharp,
     "every dot product is exact in any order: one rounding of a logit is farther off than the bound"},
    {"cancellation", Aim::kStress,
     "products are far larger than their sum, or too small to be added one by one: order and width "
     "matter"},
    {"ignored-rows", Aim::kSharp,
     "ignored rows hold NaN and infinities: a row that is multiplied by zero instead of left out "
     "leaks"},
    {"upstream-gradients", Aim::kSharp,
     "upstream gradients differ by row, in scale and in stride: element 0 or stride 1 read for all "
     "shows"},
    {"swallow", Aim::kSharp,
     "small terms vanish one by one beside a large one: an accumulation's error comes near its bound"},
    {"large-vocabulary", Aim::kSharp,
     "V up to 152 064: the depth of the sum over the vocabulary, and what it swallows, is what counts"},
    {"special-values", Aim::kStress,
     "NaN and infinities in rows that count and in weight: what must stay in its row, or in none, gets "
     "out"},
    {"invalid-labels", Aim::kStress,
     "labels outside the vocabulary, temperatures of 0 or NaN: that row is NaN, and no other differs"},
    {"subnormal", Aim::kStress, "inputs are subnormal: a kernel that flushes them computes with zeros"},
    {"huge", Aim::kStress,
     "logits up to the largest that are judged: sentinels, overflow and infinite differences"},
    {"edges", Aim::kSharp, "one column, no depth, no rows, and what is just beyond"},
    {"strides", Aim::kSharp,
     "padding, offsets, both layouts and broadcast gradients: a stride that is assumed, not read"},
}};

// The generators of Regimes(), in order. Built once: a draw then costs microseconds.
const std::vector<rc::Gen<Recipe>>& Generators() {
  static const auto* const generators = [] {
    auto* built = new std::vector<rc::Gen<Recipe>>;
    for (const Regime& regime : kRegimes) built->push_back(RecipeGen(regime.name));
    return built;
  }();
  return *generators;
}

size_t IndexOf(std::string_view regime) {
  for (size_t i = 0; i < kRegimes.size(); ++i) {
    if (kRegimes[i].name == regime) return i;
  }
  throw std::invalid_argument("regime '" + std::string(regime) + "': there is none of that name");
}

// A 256-bit key; Philox is a bijection of the counter, so no two indices of a seed share one.
rc::Random::Key KeyOf(uint64_t seed, uint64_t index) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const auto low = static_cast<uint32_t>(index), high = static_cast<uint32_t>(index >> 32);
  constexpr uint32_t kDrawRecipe = 0x72656370;  // "recp": apart from the streams of expansion
  const PhiloxBlock a = Philox4x32({low, high, kDrawRecipe, 0}, key);
  const PhiloxBlock b = Philox4x32({low, high, kDrawRecipe, 1}, key);
  const auto join = [](uint32_t x, uint32_t y) { return uint64_t{x} << 32 | y; };
  return {join(a[0], a[1]), join(a[2], a[3]), join(b[0], b[1]), join(b[2], b[3])};
}

}  // namespace

std::string_view Name(Aim aim) { return aim == Aim::kSharp ? "sharp" : "stress"; }

std::span<const Regime> Regimes() { return kRegimes; }

Aim AimOf(std::string_view regime) {
  for (const Regime& r : kRegimes) {
    if (r.name == regime) return r.aim;
  }
  return Aim::kStress;
}

Recipe DrawRecipe(uint64_t campaign_seed, uint64_t index, std::string_view regime) {
  const size_t which = regime.empty() ? index % kRegimes.size() : IndexOf(regime);
  const rc::Random random(KeyOf(campaign_seed, index));
  return Generators()[which](random, rc::kNominalSize).value();
}

}  // namespace plumbline::fuzz
