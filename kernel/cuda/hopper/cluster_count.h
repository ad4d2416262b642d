// SPDX-License-Identifier: Apache-2.0
//
// What the first launch of a kernel on a device asks and sets: the clusters that run at the same time,
// and leave for the kernel's shared memory. Later launches take it from here.

#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "kernel/status.h"

namespace plumbline::kernel::cuda::hopper {

// Clusters of one kernel by the ordinal of the device, 0: not asked yet. Threads that ask at once store
// the same. Devices past the end are asked at each launch. A cudaDeviceReset takes the leave away.
using ClusterCounts = std::array<std::atomic<int32_t>, 64>;

// Sets *clusters to how many clusters of `kernel`, launched by `config`, the current device holds at a
// time, at least 1. A multiprocessor that another process or partition holds does not count, so this
// may be less than multiprocessors over blocks of a cluster.
Status CountClusters(const void* kernel, const cudaLaunchConfig_t& config, ClusterCounts* known,
                     int32_t* clusters);

}  // namespace plumbline::kernel::cuda::hopper
