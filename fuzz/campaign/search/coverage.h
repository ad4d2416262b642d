// SPDX-License-Identifier: Apache-2.0
//
// Counts the cells (fuzz/campaign/search/features.h) that a target has shown, and how rare they are
// among the blind cases: the draws of the search that do not depend on earlier results. Statistics hold
// for those alone.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "fuzz/campaign/search/assurance.h"

namespace plumbline::fuzz {

class Coverage {
 public:
  // Adds a judged case, the next one in the order of the campaign. Returns how many of its cells (none
  // twice) no earlier case had. `elapsed`: the campaign's clock when it was done.
  int64_t Add(const std::vector<std::string>& cells, bool blind, std::chrono::milliseconds elapsed);

  int64_t cells() const { return static_cast<int64_t>(seen_.size()); }
  int64_t cases() const { return cases_; }
  int64_t blind_cases() const { return blind_; }
  // These are measured from the last case that showed a new cell; its time is on the campaign's clock.
  int64_t cases_since_new() const { return cases_ - newest_case_; }
  std::chrono::milliseconds newest() const { return newest_; }

  // Returns the chance that the next blind case shows a cell which no blind case has shown.
  NewCellChance ChanceOfNew() const;

 private:
  struct Cell {
    int64_t blind = 0;              // cases that showed it, counted up to 3
    int64_t first = 0, second = 0;  // the first two of them
  };
  std::unordered_map<std::string, Cell> seen_;  // one entry a cell, whatever the number of cases
  int64_t cases_ = 0, blind_ = 0, newest_case_ = 0;
  std::chrono::milliseconds newest_{0};
};

}  // namespace plumbline::fuzz
