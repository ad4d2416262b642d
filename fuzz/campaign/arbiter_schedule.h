// SPDX-License-Identifier: Apache-2.0
//
// Decides which of the cases that pass are put to the arbiter.
//
// Cases fall into groups: a regime's cases that would cost the arbiter about the same (a factor of
// two). Every group earns 3 % of the time that its own cases took, and saves it until it pays for one
// of them. So the whole stays under 3 %, and expensive cases (a vocabulary of 131 072 takes five
// seconds) are asked about as often as their share of the campaign's time allows, instead of never. If
// fewer than 1 000 elements a minute have been asked about, cheap cases (up to 2 ms) are asked about
// whatever their group has saved.
//
// The case alone decides which of its elements are asked about (fuzz/examine/second_opinion.h); time
// decides which cases.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace plumbline::fuzz {

inline constexpr double kArbitratedPerMinute = 1000;

// One schedule belongs to one target. Any thread may call any method.
class ArbiterSchedule {
 public:
  // `per_minute`: the least number of elements a minute. A campaign's targets share
  // kArbitratedPerMinute.
  explicit ArbiterSchedule(double per_minute) : per_second_(per_minute / 60) {}

  // Returns true if a case that passed is to be put to the arbiter. It took `seconds` of a worker;
  // asking costs about `cost` in the units of oracle::Arbiter::Cost. `elapsed`: seconds since the run
  // began.
  bool Due(const std::string& regime, double cost, double seconds, double elapsed);
  // Reports that the arbiter was asked: the seconds that it took, and about how many elements.
  void Paid(const std::string& regime, double cost, double seconds, int64_t elements);

 private:
  const double per_second_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, double> saved_;  // seconds, by regime and log2 of the cost
  int64_t elements_ = 0;
};

// The schedule of a gate, without a clock: the case's seed and its cost alone decide. On average a case
// costs the arbiter 2 ms, and none more than a second.
bool DueInGate(uint64_t seed, double cost);

}  // namespace plumbline::fuzz
