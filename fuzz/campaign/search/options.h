// SPDX-License-Identifier: Apache-2.0
//
// The options that decide what each case of a campaign is. A resumed campaign keeps them.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_OPTIONS_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_OPTIONS_H_

#include <cstdint>
#include <string>

#include "fuzz/base/units.h"

namespace plumbline::fuzz {

struct CaseOptions {
  uint64_t seed = 0;
  std::string regime;  // empty: all of them in turn
  std::string recipe;  // not empty: this one case on each target, whatever the budget
  Shard shard;
  bool blind = false;  // draws alone: no level one, and no use of earlier results
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_OPTIONS_H_
