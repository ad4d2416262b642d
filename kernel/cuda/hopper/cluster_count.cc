// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/hopper/cluster_count.h"

#include <algorithm>
#include <cstddef>

#include "kernel/cuda/support/launch.h"

namespace plumbline::kernel::cuda::hopper {

Status CountClusters(const void* kernel, const cudaLaunchConfig_t& config, ClusterCounts* known,
                     int32_t* clusters) {
  int ordinal = 0;
  Status status = FromCuda(cudaGetDevice(&ordinal), "cudaGetDevice");
  if (!status.ok()) return status;
  const auto at = static_cast<size_t>(ordinal);
  *clusters = at < known->size() ? (*known)[at].load(std::memory_order_acquire) : 0;
  if (*clusters > 0) return status;
  status = FromCuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(config.dynamicSmemBytes)),
                    "shared memory of a matrix product");
  if (status.ok()) {
    status = FromCuda(cudaOccupancyMaxActiveClusters(clusters, kernel, &config),
                      "cudaOccupancyMaxActiveClusters");
  }
  if (!status.ok()) return status;
  *clusters = std::max(*clusters, 1);
  if (at < known->size()) (*known)[at].store(*clusters, std::memory_order_release);
  return status;
}

}  // namespace plumbline::kernel::cuda::hopper
