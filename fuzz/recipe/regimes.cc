// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/regimes.h"

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/base/philox.h"
#include "fuzz/recipe/generate.h"
#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

// Builds the generators of the table's regimes, in order: a family's, or with -1 the usual ones. They
// are built once, so that a draw costs microseconds.
std::vector<rc::Gen<Recipe>> Build(int family) {
  std::vector<rc::Gen<Recipe>> built;
  for (const RegimeEntry& entry : RegimeTable()) {
    built.push_back(FamilyGen(entry.regime.name, family));
  }
  return built;
}

const std::vector<rc::Gen<Recipe>>& Generators() {
  static const auto* const generators = new std::vector<rc::Gen<Recipe>>(Build(-1));
  return *generators;
}

const std::vector<rc::Gen<Recipe>>& GeneratorsOf(int family) {
  static const auto* const families = [] {
    auto* built = new std::vector<std::vector<rc::Gen<Recipe>>>;
    for (int f = 0; f < kShapeFamilies; ++f) built->push_back(Build(f));
    return built;
  }();
  return (*families)[static_cast<size_t>(family)];
}

// A 256-bit key. Philox is a bijection of the counter, so no two indices of a seed share a key.
constexpr uint32_t kDrawRecipe = 0x72656370;    // "recp": differs from the streams of expansion
constexpr uint32_t kDrawLevelOne = 0x6c766c31;  // "lvl1"
constexpr uint32_t kDrawInFamily = 0x636f7672;  // "covr"

rc::Random::Key KeyOf(uint64_t seed, uint64_t index, uint32_t purpose) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const auto low = static_cast<uint32_t>(index), high = static_cast<uint32_t>(index >> 32);
  const PhiloxBlock a = Philox4x32({low, high, purpose, 0}, key);
  const PhiloxBlock b = Philox4x32({low, high, purpose, 1}, key);
  const auto join = [](uint32_t x, uint32_t y) { return uint64_t{x} << 32 | y; };
  return {join(a[0], a[1]), join(a[2], a[3]), join(b[0], b[1]), join(b[2], b[3])};
}

// True for one index in kBeyondEvery, none of them below kFirstBeyond: a case with N * V beyond 2^31
// takes 15 to 60 s, which a campaign of a minute does not have. Half of a campaign's cases are such
// draws.
constexpr uint64_t kBeyondEvery = 50'000, kFirstBeyond = 100'000;

bool IsBeyond(uint64_t seed, uint64_t index, size_t regime) {
  static const size_t many_logits = IndexOf(LogitsBeyond().regime.name);
  const uint64_t walk = Regimes().size(), block = index / kBeyondEvery;
  if (regime != many_logits || index % walk != many_logits || index < kFirstBeyond) return false;
  const uint64_t place = block * kBeyondEvery + Mix(seed, block) % (kBeyondEvery - walk);
  return index >= place && index < place + walk;
}

}  // namespace

std::string_view Name(Aim aim) { return aim == Aim::kSharp ? "sharp" : "stress"; }

std::span<const RegimeEntry> RegimeTable() {
  static const auto* const table = [] {
    auto* all = new std::vector<RegimeEntry>;
    for (const auto part :
         {LogitRegimes(), ProductRegimes(), GradientRegimes(), DataRegimes(), ShapeRegimes()}) {
      all->insert(all->end(), part.begin(), part.end());
    }
    return all;
  }();
  return *table;
}

size_t IndexOf(std::string_view regime) {
  const auto found = std::ranges::find(Regimes(), regime, &Regime::name);
  if (found != Regimes().end()) return static_cast<size_t>(found - Regimes().begin());
  throw std::invalid_argument("regime '" + std::string(regime) + "': there is none of that name");
}

std::span<const Regime> Regimes() {
  static const auto* const regimes = [] {
    auto* all = new std::vector<Regime>;
    for (const RegimeEntry& entry : RegimeTable()) all->push_back(entry.regime);
    return all;
  }();
  return *regimes;
}

Aim AimOf(std::string_view regime) {
  const auto found = std::ranges::find(Regimes(), regime, &Regime::name);
  return found != Regimes().end() ? found->aim : Aim::kStress;
}

Recipe DrawRecipe(uint64_t campaign_seed, uint64_t index, std::string_view regime) {
  const size_t which = regime.empty() ? index % Regimes().size() : IndexOf(regime);
  const rc::Random random(KeyOf(campaign_seed, index, kDrawRecipe));
  if (IsBeyond(campaign_seed, index, which)) {
    static const auto* const beyond = new rc::Gen<Recipe>(LogitsBeyondGen());
    return (*beyond)(random, rc::kNominalSize).value();
  }
  return Generators()[which](random, rc::kNominalSize).value();
}

Recipe DrawInFamily(uint64_t seed, uint64_t index, size_t regime, int family) {
  const rc::Random random(KeyOf(seed, index, kDrawInFamily));
  return GeneratorsOf(family)[regime](random, rc::kNominalSize).value();
}

int64_t LevelOneCases() { return static_cast<int64_t>(Regimes().size()) * kShapeFamilies; }

// Regimes are the inner loop: the first case of each regime comes before the second of any.
Recipe DrawLevelOne(uint64_t seed, int64_t index) {
  if (index < 0 || index >= LevelOneCases()) {
    throw std::invalid_argument("level one case " + std::to_string(index) + ": there are " +
                                std::to_string(LevelOneCases()));
  }
  const auto regimes = static_cast<int64_t>(Regimes().size());
  const rc::Random random(KeyOf(seed, static_cast<uint64_t>(index), kDrawLevelOne));
  const auto& generators = GeneratorsOf(static_cast<int>(index / regimes));
  return generators[static_cast<size_t>(index % regimes)](random, rc::kNominalSize).value();
}

}  // namespace plumbline::fuzz
