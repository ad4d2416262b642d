// SPDX-License-Identifier: Apache-2.0
//
// Regimes: named families of recipes, each aimed at one way of being wrong. Drawn with RapidCheck
// generators, so that properties in tests and campaigns draw from the same place.

#ifndef PLUMBLINE_FUZZ_REGIMES_H_
#define PLUMBLINE_FUZZ_REGIMES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "fuzz/recipe.h"

namespace plumbline::fuzz {

struct Regime {
  std::string_view name;  // "ragged-tail"
  std::string_view why;   // one line that the user sees
};

std::span<const Regime> Regimes();

// The index-th recipe of a campaign: a pure function of its arguments. With an empty regime, indices
// walk over all regimes. Throws std::invalid_argument for any other name that Regimes() does not have.
// Any number of threads may draw at once.
Recipe DrawRecipe(uint64_t campaign_seed, uint64_t index, std::string_view regime = {});

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_REGIMES_H_
