// SPDX-License-Identifier: Apache-2.0
//
// Distributes work items over threads. Which thread runs an item is not determined; every item writes
// memory of its own, so results do not depend on it.

#pragma once

#include <cstdint>
#include <functional>

namespace plumbline::kernel::host {

// Returns the number of threads worth using for that many multiply-adds, at most `requested` (0: one
// per hardware thread). Below 4 million it is one, and no thread is started. Constant within a process.
int ThreadsFor(int requested, double multiply_adds);

// Calls body(worker, item) once for every item in [0, items), worker in [0, threads), from at most
// `threads` threads, the calling one included; returns when all are done. Where the system refuses a
// thread, the others do its work. The body must not throw.
void ParallelFor(int threads, int64_t items, const std::function<void(int, int64_t)>& body);

}  // namespace plumbline::kernel::host
