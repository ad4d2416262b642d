// SPDX-License-Identifier: Apache-2.0
//
// Enqueues a kernel of persistent clusters.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernel/cuda/hopper/cluster_count.h"
#include "kernel/cuda/hopper/tile_shape.cuh"
#include "kernel/cuda/support/launch.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda::hopper {

// Enqueues `kernel` in clusters of `blocks` blocks: as many as most(fit) says, where the device runs
// `fit` of them at the same time, but at least one. The grid may start before what was enqueued before
// it has ended (AwaitPreviousGrid). `known` is of this kernel; `what` names it in errors.
template <class Most, class... Parameters, class... Arguments>
Status LaunchClusters(const char* what, void (*kernel)(Parameters...), ClusterCounts* known,
                      unsigned blocks, size_t shared_bytes, cudaStream_t stream, const Most& most,
                      const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {blocks, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.blockDim = dim3(kBlockThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  config.gridDim = dim3(blocks);
  int32_t fit = 0;
  Status counted = CountClusters(reinterpret_cast<const void*>(kernel), config, known, &fit);
  if (!counted.ok()) return counted;
  config.gridDim = dim3(blocks * unsigned(std::max<int64_t>(1, most(int64_t{fit}))));
  return FromCuda(cudaLaunchKernelEx(&config, kernel, arguments...), what);
}

}  // namespace plumbline::kernel::cuda::hopper
