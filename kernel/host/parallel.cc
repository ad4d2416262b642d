// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace plumbline::kernel::host {

int ThreadsFor(int requested, double multiply_adds) {
  // A thread costs some 20 us to start and join; at 20 G multiply-adds a second, 4 million take 200 us.
  constexpr double kPerThread = 4e6;
  constexpr int kMost = 256;
  // Read once: the answer may change with the affinity mask, and workspace sizes depend on it.
  static const int hardware = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int allowed = std::min(requested > 0 ? requested : hardware, kMost);
  const double worth = std::min(multiply_adds / kPerThread, static_cast<double>(kMost));
  return std::max(1, std::min(allowed, static_cast<int>(worth)));
}

void ParallelFor(int threads, int64_t items, const std::function<void(int, int64_t)>& body) {
  std::atomic<int64_t> next{0};
  const auto work = [&](int worker) {
    for (int64_t item = next.fetch_add(1); item < items; item = next.fetch_add(1)) body(worker, item);
  };
  const int helpers = static_cast<int>(std::min<int64_t>(threads, items)) - 1;
  std::vector<std::thread> started;
  try {
    started.reserve(static_cast<size_t>(std::max(0, helpers)));
    for (int i = 0; i < helpers; ++i) started.emplace_back(work, i + 1);
  } catch (const std::exception&) {
    // The running threads take the items of those that could not be started.
  }
  work(0);
  for (std::thread& thread : started) thread.join();
}

}  // namespace plumbline::kernel::host
