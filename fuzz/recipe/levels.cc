// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/levels.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/recipe/generate.h"
#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using kernel::DType;
using kernel::Reduction;

constexpr DType kDTypes[] = {DType::kBf16, DType::kF16, DType::kF32};
constexpr Reduction kReductions[] = {Reduction::kNone, Reduction::kSum, Reduction::kMean};
constexpr Labels kLabels[] = {Labels::kRandom,     Labels::kArgmax,   Labels::kFirst,
                              Labels::kLast,       Labels::kTileEdge, Labels::kSomeIgnored,
                              Labels::kIgnoredNaN, Labels::kOneValid, Labels::kPrompts,
                              Labels::kPadded,     Labels::kPacked};
constexpr Grads kGrads[] = {Grads::kNone,       Grads::kOnes,   Grads::kRandom,      Grads::kFirstZero,
                            Grads::kWide,       Grads::kOneHot, Grads::kSignedZeros, Grads::kClipped,
                            Grads::kAdvantages, Grads::kMasked};

// Vectors of stride 2 are the fifth layout.
struct LayoutLevel {
  bool hidden_major;
  int64_t pad, offset, stride;
  Rows rows;
};
constexpr LayoutLevel kLayouts[] = {{false, 0, 0, 1, Rows::kForward}, {true, 0, 0, 1, Rows::kForward},
                                    {false, 3, 1, 1, Rows::kForward}, {true, 3, 1, 1, Rows::kForward},
                                    {false, 1, 0, 2, Rows::kForward}, {true, 0, 0, 1, Rows::kReversed}};

enum TemperatureLevel { kNoTemperature, kExact, kInexact, kByRow, kTemperatureLevels };

constexpr unsigned Bit(Factor factor) { return 1U << static_cast<int>(factor); }

// What a regime is about is the same in all of its recipes, so the design does not vary it. Shapes that
// a regime fixes are in its Ingredients.
struct Fixing {
  std::string_view regime;
  unsigned factors;
};
constexpr Fixing kFixings[] = {
    {"confident-label", Bit(Factor::kLabels)},
    {"unlikely-label", Bit(Factor::kLabels)},
    {"extreme-temperature", Bit(Factor::kTemperature)},
    // Other gradients, or dtypes, overflow at such temperatures.
    {"temperature-range", Bit(Factor::kTemperature) | Bit(Factor::kGrads) | Bit(Factor::kDType)},
    {"temperatures", Bit(Factor::kTemperature)},
    {"entropy-alone", Bit(Factor::kGrads)},
    {"alternating-gradients", Bit(Factor::kGrads) | Bit(Factor::kReduction)},
    {"tiny-gradients", Bit(Factor::kGrads)},
    {"gradient-range", Bit(Factor::kGrads)},
    {"policy-gradients", Bit(Factor::kGrads) | Bit(Factor::kReduction)},
    {"mean", Bit(Factor::kLabels) | Bit(Factor::kReduction)},
    {"label-collisions", Bit(Factor::kLabels)},
    {"ignored-rows", Bit(Factor::kLabels)},
    {"sequences", Bit(Factor::kLabels)},
    {"special-values", Bit(Factor::kLabels)},
    {"invalid-labels", Bit(Factor::kLabels) | Bit(Factor::kTemperature)},
    {"tile-labels", Bit(Factor::kLabels)},
    {"all-ignored", Bit(Factor::kLabels) | Bit(Factor::kReduction)},
    {"far-ignore-index", Bit(Factor::kLabels)},
    {"strides", Bit(Factor::kLayout)},
    {"wide-strides", Bit(Factor::kLayout)},
    {"row-order", Bit(Factor::kLayout)},
    {"strided-vectors", Bit(Factor::kLayout) | Bit(Factor::kTemperature)},
    {"misaligned", Bit(Factor::kLayout)},
    // Without a vocabulary every row is ignored.
    {"edges", Bit(Factor::kLabels)}};

unsigned FixedBy(const RegimeEntry& entry) {
  unsigned fixed = 0;
  for (const Fixing& fixing : kFixings)
    fixed |= fixing.regime == entry.regime.name ? fixing.factors : 0;
  for (const Ingredients& i : entry.compose()) {
    if (i.own_shape && i.only_family != kNoFamily) fixed |= Bit(Factor::kFamily);
  }
  return fixed;
}

// By regime, in the order of the table.
bool Fixes(size_t regime, Factor factor) {
  static const auto* const fixed = [] {
    auto* all = new std::vector<unsigned>;
    for (const RegimeEntry& entry : RegimeTable()) all->push_back(FixedBy(entry));
    return all;
  }();
  return ((*fixed)[regime] & Bit(factor)) != 0;
}

bool DiffersByRow(Grads grads) {
  return grads == Grads::kFirstZero || grads == Grads::kOneHot || grads == Grads::kAdvantages ||
         grads == Grads::kClipped || grads == Grads::kMasked;
}

void SetLayout(const LayoutLevel& level, Recipe* r) {
  r->hidden_major = level.hidden_major;
  r->pad = level.pad;
  r->offset = level.offset;
  r->grad_stride = r->label_stride = r->temperature_stride = r->output_stride = level.stride;
  r->gradient_step = r->single_stride = 1;
  r->rows = level.rows;
}

// `low`: one of two temperatures of the level.
void SetTemperature(int level, bool low, Recipe* r) {
  r->temperature = level == kExact ? (low ? 0.5F : 2.0F) : level == kInexact ? (low ? 0.7F : 1.3F) : 1;
  r->temperature_per_row = level == kByRow;
  r->temperature_spread = 1;
}

template <class T, size_t kCount>
int Find(const T (&levels)[kCount], T value) {
  const auto at = std::find(std::begin(levels), std::end(levels), value);
  return at != std::end(levels) ? static_cast<int>(at - std::begin(levels)) : kByRegime;
}

int LayoutLevelOf(const Recipe& r) {
  for (int level = 0; level < static_cast<int>(std::size(kLayouts)); ++level) {
    Recipe set = r;
    SetLayout(kLayouts[level], &set);
    if (set == r) return level;
  }
  return kByRegime;
}

int TemperatureLevelOf(const Recipe& r) {
  if (r.temperature_per_row) return r.temperature == 1 ? kByRow : kByRegime;
  if (r.temperature == 1) return kNoTemperature;
  if (r.temperature == 0.5F || r.temperature == 2) return kExact;
  return r.temperature == 0.7F || r.temperature == 1.3F ? kInexact : kByRegime;
}

}  // namespace

int LevelCount(Factor factor) {
  switch (factor) {
    case Factor::kRegime:
      return static_cast<int>(Regimes().size());
    case Factor::kFamily:
      return kShapeFamilies;
    case Factor::kDType:
      return std::size(kDTypes);
    case Factor::kLayout:
      return std::size(kLayouts);
    case Factor::kLabels:
      return std::size(kLabels);
    case Factor::kGrads:
      return std::size(kGrads);
    case Factor::kReduction:
      return std::size(kReductions);
    case Factor::kTemperature:
      return kTemperatureLevels;
  }
  return 0;
}

bool CanMeet(Factor a, int level_a, Factor b, int level_b) {
  if (a > b) return CanMeet(b, level_b, a, level_a);
  if (a == Factor::kRegime) {
    const auto regime = static_cast<size_t>(level_a);
    if (Fixes(regime, b)) return false;
    // A reduction that the regime fixes may be one.
    return b != Factor::kGrads || !Fixes(regime, Factor::kReduction) || !DiffersByRow(kGrads[level_b]);
  }
  if (a == Factor::kGrads && b == Factor::kReduction) {
    return kReductions[level_b] == Reduction::kNone || !DiffersByRow(kGrads[level_a]);
  }
  return true;
}

bool RegimeFixes(std::string_view regime, Factor factor) { return Fixes(IndexOf(regime), factor); }

void SetLevel(Factor factor, int level, Recipe* r) {
  switch (factor) {
    case Factor::kDType:
      r->dtype = kDTypes[level];
      if (r->dtype == DType::kF16) r->exp = HalfExp(r->values, r->exp);
      return;
    case Factor::kLabels:
      r->labels = kLabels[level];
      return;
    case Factor::kReduction:
      r->reduction = kReductions[level];
      return;
    case Factor::kGrads:
      r->grads = kGrads[level];
      // Without any gradient there is no backward pass to look at.
      if (r->grads == Grads::kNone && r->entropy_grads == Grads::kNone) {
        r->entropy_grads = Grads::kRandom;
      }
      return;
    case Factor::kTemperature:
      return SetTemperature(level, (r->seed & 1) != 0, r);
    case Factor::kLayout:
      return SetLayout(kLayouts[level], r);
    case Factor::kRegime:
    case Factor::kFamily:
      return;
  }
}

Recipe DrawWithLevels(uint64_t seed, uint64_t index, const Levels& levels) {
  for (int f = 0; f < kFactors; ++f) {
    const int level = levels[static_cast<size_t>(f)];
    if (level < kByRegime || level >= LevelCount(static_cast<Factor>(f)) ||
        (f == 0 && level == kByRegime)) {
      throw std::invalid_argument("level " + std::to_string(level) + " of factor " + std::to_string(f) +
                                  ": there is none");
    }
  }
  const auto at = [&](Factor factor) { return levels[static_cast<size_t>(factor)]; };
  Recipe r = DrawInFamily(seed, index, static_cast<size_t>(at(Factor::kRegime)),
                          std::max(at(Factor::kFamily), 0));
  for (const Factor factor : {Factor::kDType, Factor::kLabels, Factor::kReduction, Factor::kGrads,
                              Factor::kTemperature, Factor::kLayout}) {
    if (at(factor) != kByRegime) SetLevel(factor, at(factor), &r);
  }
  KeepSensible(&r);
  return r;
}

int LevelOf(Factor factor, const Recipe& r) {
  const size_t regime = IndexOf(r.regime);
  if (factor != Factor::kRegime && Fixes(regime, factor)) return kByRegime;
  switch (factor) {
    case Factor::kRegime:
      return static_cast<int>(regime);
    case Factor::kFamily:
      return kByRegime;
    case Factor::kDType:
      return Find(kDTypes, r.dtype);
    case Factor::kLayout:
      return LayoutLevelOf(r);
    case Factor::kLabels:
      return Find(kLabels, r.labels);
    case Factor::kGrads:
      return Find(kGrads, r.grads);
    case Factor::kReduction:
      return Find(kReductions, r.reduction);
    case Factor::kTemperature:
      return TemperatureLevelOf(r);
  }
  return kByRegime;
}

}  // namespace plumbline::fuzz
