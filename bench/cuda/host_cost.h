// SPDX-License-Identifier: Apache-2.0
//
// What a call costs the thread that makes it.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace plumbline::bench {

// Returns the median of the microseconds that `call` takes of this thread, the device being idle.
double HostMicroseconds(const std::function<void()>& call, int calls, cudaStream_t stream);

// Returns the number of kernels and memsets that `call` enqueues. It is captured, not run.
int64_t Launches(const std::function<void()>& call, cudaStream_t stream);

}  // namespace plumbline::bench
