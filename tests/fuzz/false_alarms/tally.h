// SPDX-License-Identifier: Apache-2.0
//
// Verdicts of several problems of one kind of data, counted: a line of the program's output.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "tests/fuzz/false_alarms/measure.h"

namespace plumbline::false_alarms {

// Verdicts are kept apart by the least number of units of an output that is judged: 8, 12, 16, 24 or
// 32, each up to the next. Returns 0 for fewer than 8, which are not judged.
int ClassOf(int64_t units);

// The largest ratio of a verdict is counted in bins of an eighth of an octave, bin 0 from 1.
int BinOf(double ratio);

class Tally {
 public:
  explicit Tally(const Members& members) : members_(members) {}
  void Add(uint64_t seed, const std::vector<MemberErrors>& errors);
  // {NAME: {"verdicts", "classes": {"8": {BIN: count}}, "outputs": {NAME: [count, rms, median,
  // largest]}, "worst": {...}, "suspect": [...]}}. The largest of each ratio over all problems.
  fuzz::Json ToJson() const;

 private:
  struct Largest {
    int64_t count = 0;
    std::array<double, 3> ratios = {0, 0, 0};
  };
  struct OfMember {
    int64_t verdicts = 0;
    std::map<int, std::map<int, int64_t>> classes;
    std::map<std::string, Largest> outputs;
    double largest = -1;
    fuzz::Json worst;
    fuzz::Json::Array suspect;
  };
  const Members& members_;
  std::map<size_t, OfMember> of_;
};

}  // namespace plumbline::false_alarms
