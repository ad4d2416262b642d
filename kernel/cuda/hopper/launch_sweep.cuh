// SPDX-License-Identifier: Apache-2.0
//
// Enqueues one SweepKernel: tensor maps, grid, shared memory. Included by the sources that instantiate
// it.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "kernel/cuda/hopper/launch_clusters.cuh"
#include "kernel/cuda/hopper/sweep_kernel.cuh"
#include "kernel/cuda/support/hooks.cuh"
#include "kernel/status.h"

namespace plumbline::kernel::cuda::hopper {

template <class Element, class Hooks = NoHooks>
Status LaunchSweep(const Product& hidden, const AccumulateEpilogue& sums, const Product& weight,
                   const GradWeightLines<Element>& lines, cudaStream_t stream,
                   const Hooks& hooks = {}) {
  if (hidden.m == 0 || hidden.n == 0 || hidden.k == 0) return Status::Ok();
  Maps of_hidden = {}, of_weight = {};
  Status mapped = MakeMaps(hidden, Major::kK, Major::kMN, kDepthBlock, kDepthBlock, &of_hidden);
  if (mapped.ok())
    mapped = MakeMaps(weight, Major::kMN, Major::kMN, kDepthBlock, kDepthBlock, &of_weight);
  if (!mapped.ok()) return mapped;
  const SweepMaps maps = {of_hidden.a, of_hidden.b, of_weight.b, of_weight.b_alternative};
  Sweep<Element> sweep;
  sweep.live_rows = hidden.live_rows;
  sweep.use_alternative = weight.use_alternative;
  sweep.rows = int(hidden.m);
  sweep.columns = int(hidden.k);
  sweep.stretch = int(hidden.stretch > 0 ? hidden.stretch : hidden.k);
  sweep.stretches = (sweep.columns - 1) / sweep.stretch + 1;
  sweep.pairs = int(hidden.n / SweepShape::kUnitColumns);
  sweep.hidden_columns = int(hidden.n);
  sweep.grad_hidden = sums;
  sweep.grad_weight = lines;
  static constinit ClusterCounts known{};
  const int64_t units = int64_t{sweep.pairs} * sweep.stretches;
  const auto most = [&](int64_t fit) { return std::min(units, hooks.Clusters(fit)); };
  return LaunchClusters("launch of a sweep over weight", &SweepKernel<Element, Hooks>, &known,
                        SweepShape::kClusterBlocks, SweepShape::kSharedBytes, stream, most, maps, sweep,
                        hooks);
}

}  // namespace plumbline::kernel::cuda::hopper
