// SPDX-License-Identifier: Apache-2.0
//
// The draws of a campaign as one of its targets gets them: within what it can do
// (fuzz/campaign/search/within.h) and, where it compiles, in the shapes of a palette.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/search/palette.h"
#include "fuzz/recipe/levels.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {

class TargetDraws {
 public:
  // For a target that can do everything: recipes stay as they are.
  TargetDraws() = default;
  // `regimes`: those of the campaign. `palette`: the number of its entries; 0: any shapes. `by_class`:
  // as in Palette.
  TargetDraws(const Capabilities& can, const std::vector<std::string>& regimes, uint64_t seed,
              int64_t palette, bool by_class = false);
  // In the shapes of this palette.
  TargetDraws(const Capabilities& can, const std::vector<std::string>& regimes,
              std::optional<Palette> palette);

  // Returns the case that stands for this draw. A draw of a regime that is out of reach is replaced by
  // one of another regime of the campaign, chosen by its seed.
  Recipe Of(Recipe draw) const;
  // Returns the levels of a row of the covering design that its case has.
  Levels LevelsOf(const Levels& row, const Recipe& drawn) const;
  // The levels that the target can have, by factor; empty: all of them.
  const AllowedLevels& levels() const { return levels_; }
  const std::vector<std::string>& unreached() const { return unreached_; }

 private:
  bool whole_ = true;  // can do everything, in any shape
  Capabilities can_;
  std::optional<Palette> palette_;
  std::vector<std::string> reached_, unreached_;  // regimes
  AllowedLevels levels_;
};

}  // namespace plumbline::fuzz
