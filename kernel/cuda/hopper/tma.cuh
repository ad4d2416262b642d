// SPDX-License-Identifier: Apache-2.0
//
// Copies of a box of a tensor map into shared memory by the tensor memory accelerator (PTX ISA,
// cp.async.bulk.tensor). A box is {inner, rows, 1 plane} at {inner, row, plane}; elements beyond the
// map's extent arrive as zeros and count among the bytes that complete on the barrier. One thread
// issues.
//
// A copy may name a cache policy of L2 (PTX ISA, createpolicy).

#pragma once

#include <cstdint>

#include "kernel/cuda/hopper/tensor_map.h"

namespace plumbline::kernel::cuda::hopper {

// The policies evict_normal, which a copy has that names none, and evict_first, for all of its lines.
// CUTLASS has the same two numbers (TMA::CacheHintSm90).
inline constexpr uint64_t kKeepInL2 = 0x1000000000000000, kLeaveL2First = 0x12F0000000000000;

// `map` lies in kernel parameters (__grid_constant__), constant or global memory.
__device__ __forceinline__ void PrefetchTensorMap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void CopyBox(uint32_t destination, const TensorMap* map, uint32_t barrier,
                                        int32_t inner, int32_t row, int32_t plane) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(inner), "r"(row), "r"(plane)
      : "memory");
}

// The same box into every block of the cluster whose bit is set in `blocks`, each at its own
// `destination` and completing on its own `barrier`.
__device__ __forceinline__ void CopyBoxToBlocks(uint32_t destination, const TensorMap* map,
                                                uint32_t barrier, int32_t inner, int32_t row,
                                                int32_t plane, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(inner), "r"(row), "r"(plane), "h"(blocks)
      : "memory");
}

// The same with a policy.
__device__ __forceinline__ void CopyBoxToBlocks(uint32_t destination, const TensorMap* map,
                                                uint32_t barrier, int32_t inner, int32_t row,
                                                int32_t plane, uint16_t blocks, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(inner), "r"(row), "r"(plane), "h"(blocks), "l"(policy)
      : "memory");
}

}  // namespace plumbline::kernel::cuda::hopper
