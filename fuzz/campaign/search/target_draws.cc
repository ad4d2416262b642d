// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/target_draws.h"

#include <algorithm>
#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/campaign/search/within.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

// True if no recipe is changed by these capabilities. Outputs that a target lacks change none, but for
// the entropy.
bool ChangesNothing(Capabilities can) {
  const Capabilities all;
  can.lse = can.grad_hidden = can.grad_weight = can.fp32_grads = can.first_invalid_row = true;
  can.deterministic = can.batch_invariant = true;
  // No list repeats an item, so one as long as that of all has all.
  if (can.dtypes.size() == all.dtypes.size()) can.dtypes = all.dtypes;
  if (can.reductions.size() == all.reductions.size()) can.reductions = all.reductions;
  return can == all;
}

}  // namespace

TargetDraws::TargetDraws(const Capabilities& can, const std::vector<std::string>& regimes,
                         uint64_t seed, int64_t palette, bool by_class)
    : TargetDraws(can, regimes,
                  palette > 0 ? std::optional(Palette(seed, palette, can, by_class)) : std::nullopt) {}

TargetDraws::TargetDraws(const Capabilities& can, const std::vector<std::string>& regimes,
                         std::optional<Palette> palette)
    : whole_(!palette && ChangesNothing(can)), can_(can), palette_(std::move(palette)) {
  if (whole_) return;
  for (const std::string& regime : regimes) {
    (Reaches(can, regime) ? reached_ : unreached_).push_back(regime);
  }
  levels_.resize(kFactors);
  for (int f = 0; f < kFactors; ++f) {
    const auto factor = static_cast<Factor>(f);
    for (int level = 0; level < LevelCount(factor); ++level) {
      const bool has = factor == Factor::kFamily && palette_ ? false : HasLevel(can, factor, level);
      levels_[static_cast<size_t>(f)].push_back(has);
    }
  }
}

Recipe TargetDraws::Of(Recipe draw) const {
  if (whole_) return draw;
  if (!reached_.empty() &&
      std::find(unreached_.begin(), unreached_.end(), draw.regime) != unreached_.end()) {
    constexpr uint64_t kInstead = 0x696e'7374;
    const uint64_t bits = Mix(draw.seed, kInstead);
    draw = DrawRecipe(bits, 0, reached_[bits % reached_.size()]);
  }
  Recipe kept = KeepWithin(can_, std::move(draw));
  if (palette_) palette_->Place(&kept);
  return kept;
}

Levels TargetDraws::LevelsOf(const Levels& row, const Recipe& drawn) const {
  if (whole_) return row;
  Levels has = row;
  // Shapes keep the nature of their family, but those of a palette.
  for (int f = 0; f < kFactors; ++f) {
    const auto factor = static_cast<Factor>(f);
    int& level = has[static_cast<size_t>(f)];
    const bool fits = factor == Factor::kFamily ? !palette_ : LevelOf(factor, drawn) == level;
    if (!fits) level = kByRegime;
  }
  return has;
}

}  // namespace plumbline::fuzz
