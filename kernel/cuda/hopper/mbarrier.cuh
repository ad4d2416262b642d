// SPDX-License-Identifier: Apache-2.0
//
// Barriers in shared memory on which threads and asynchronous copies meet (PTX ISA, "mbarrier"), and
// the barrier of a cluster. A barrier goes through phases. A phase ends when its arrivals and its
// announced bytes are complete, and BarrierWait(parity) returns once the phase of that parity is over:
// parity 0 for the first use, then alternating. Addresses are those of the shared window
// (SharedAddress).

#pragma once

#include <cstdint>

namespace plumbline::kernel::cuda::hopper {

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void BarrierInit(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the cluster and to asynchronous copies; a ClusterSync follows.
__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives once and announces bytes that copies will deliver in this phase.
__device__ __forceinline__ void BarrierExpect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void BarrierWait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT_%=;\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Arrives at the barrier of the same address in block `rank` of the cluster. The arrival publishes no
// writes: it reports reads by wgmma whose end wgmma.wait_group has seen. So it is not .release.cluster,
// which compiles to a fence of the whole device each time (MEMBAR.ALL.GPU; 13 % of the forward product;
// bench/NOTES.md, 1).
__device__ __forceinline__ void BarrierArriveAt(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Waits for all threads of all blocks of the cluster.
__device__ __forceinline__ void ClusterSync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

}  // namespace plumbline::kernel::cuda::hopper
