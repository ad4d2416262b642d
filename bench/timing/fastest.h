// SPDX-License-Identifier: Apache-2.0
//
// Which of several ways of doing the same takes least time: the least median over rounds in each of
// which every candidate runs once. One measurement each would let whoever had the quietest moment win,
// and what is chosen is a reference that every later ratio is taken to.

#ifndef PLUMBLINE_BENCH_TIMING_FASTEST_H_
#define PLUMBLINE_BENCH_TIMING_FASTEST_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace plumbline::bench {

// Runs the candidates named in `order`, one after another, and returns the time of each, likewise.
using Round = std::function<std::vector<double>(const std::vector<size_t>& order)>;

inline constexpr int kRounds = 7;
// After as many rounds, those whose median is further than this from the least are left out.
inline constexpr int kRoundsOfAll = 2;
inline constexpr double kFar = 1.15;

// The index of the fastest of `candidates` (one at least). Every second round goes through them
// backwards, so that none always has the same one before it. Before the rounds that count, one that
// does not: a first call loads code.
size_t Fastest(size_t candidates, const Round& round);

}  // namespace plumbline::bench

#endif  // PLUMBLINE_BENCH_TIMING_FASTEST_H_
