// SPDX-License-Identifier: Apache-2.0
//
// Finds which of several ways of doing the same takes the least time: the least median over rounds in
// each of which every candidate runs once. With one measurement each, the candidate measured in the
// quietest moment would win, and the choice is a reference that every later ratio is taken to.

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace plumbline::bench {

// Runs the candidates named in `order` in sequence, and returns the time of each in the same order.
using Round = std::function<std::vector<double>(const std::vector<size_t>& order)>;

inline constexpr int kRounds = 7;
// After this many rounds, candidates whose median is further than kFar from the least are left out.
inline constexpr int kRoundsOfAll = 2;
inline constexpr double kFar = 1.15;

// Returns the index of the fastest of `candidates` (at least one). Every second round goes through them
// in reverse, so that none always has the same predecessor. A round that does not count comes first: a
// first call loads code.
size_t Fastest(size_t candidates, const Round& round);

}  // namespace plumbline::bench
