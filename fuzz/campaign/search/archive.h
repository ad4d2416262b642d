// SPDX-License-Identifier: Apache-2.0
//
// The elites of a campaign (MAP-Elites: Mouret and Clune, 2015): for each niche, a target's output in a
// class of cases, the recipe that came nearest to the bound there. An elite is where the search goes on
// from; the bound itself is the wall that it climbs towards.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_ARCHIVE_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_ARCHIVE_H_

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

  // A judged case of a target. Returns by how much the largest tightness of its niches rose, in all:
  // from 0 where a niche is new, and never beyond the bound, for what lies above 1 is a finding and not
  // a place to go on from: it leaves the elite as it is.
  double Add(size_t target, const CaseRecord& record, const Recipe& recipe);

  // At most outputs x classes x targets, whatever the number of cases.
  size_t size() const { return elites_.size(); }
  const std::map<std::string, Elite>& elites() const { return elites_; }

 private:
  std::map<std::string, Elite> elites_;  // by "TARGET OUTPUT CLASS AIM DTYPE GRADS"
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_SEARCH_ARCHIVE_H_
