// SPDX-License-Identifier: Apache-2.0
//
// The elites of a campaign (MAP-Elites: Mouret and Clune, 2015): for each niche, a target's output in a
// class of cases, the recipe that came nearest to the bound. The search changes elites to come nearer
// to the bound.

#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "fuzz/campaign/search/record.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

class Archive {
 public:
  struct Elite {
    double tightness = 0;
    Recipe recipe;
  };

  // Adds a judged case of a target. Returns the sum of the rises of its niches' largest tightness: from
  // 0 if a niche is new, and never beyond the bound. A tightness above 1 is a finding; it leaves the
  // elite as it is, since the search does not continue from findings.
  double Add(size_t target, const CaseRecord& record, const Recipe& recipe);

  // Returns the number of elites: at most outputs x classes x targets, whatever the number of cases.
  size_t size() const { return elites_.size(); }
  const std::map<std::string, Elite>& elites() const { return elites_; }

 private:
  std::map<std::string, Elite> elites_;  // by "TARGET OUTPUT CLASS AIM DTYPE GRADS"
};

}  // namespace plumbline::fuzz
