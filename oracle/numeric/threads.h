// SPDX-License-Identifier: Apache-2.0
//
// Cuts a range of work items into one run of neighbours a thread. The assignment depends on the number
// of threads alone.

#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace plumbline::oracle {

// Calls body(worker, begin, end) for every nonempty run of [0, count); the caller is worker 0. The body
// must not throw.
template <class Body>
void ParallelRanges(int threads, int64_t count, const Body& body) {
  const int64_t runs = std::clamp<int64_t>(threads, 1, std::max<int64_t>(count, 1));
  const auto edge = [&](int64_t run) { return count * run / runs; };
  std::vector<std::thread> others;
  for (int64_t run = 1; run < runs; ++run) {
    others.emplace_back([&, run] { body(static_cast<int>(run), edge(run), edge(run + 1)); });
  }
  if (count > 0) body(0, 0, edge(1));
  for (std::thread& other : others) other.join();
}

}  // namespace plumbline::oracle
