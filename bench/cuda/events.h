// SPDX-License-Identifier: Apache-2.0
//
// CUDA events for the length of a scope: they mark points of a stream and give the time between two of
// them.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "bench/cuda/memory.h"

namespace plumbline::bench {

class Events {
 public:
  explicit Events(size_t count) : events_(count) {
    for (cudaEvent_t& event : events_) Check(cudaEventCreate(&event), "cudaEventCreate");
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }
  void Record(size_t i, cudaStream_t stream) {
    Check(cudaEventRecord(events_[i], stream), "cudaEventRecord");
  }
  // Returns milliseconds. The stream must have been waited for.
  double Between(size_t from, size_t to) const {
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, events_[from], events_[to]), "cudaEventElapsedTime");
    return ms;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace plumbline::bench
