// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the CUDA operator with one of the mutants' defects, as a policy of
// kernel/cuda/support/hooks.cuh. One instantiation serves all mutants on a path: which defect is active
// is asked at run time. Where a race would be won on some machines, a slow warp loses it on all.

#pragma once

#include <cstdint>

#include "fuzz/builtin/mutants/table.h"

namespace plumbline::fuzz {

struct CudaMutantHooks {
  int active = kNoMutant;

  __host__ __device__ bool Is(CudaMutantName name) const { return active == name.row; }

  template <class Int>
  __device__ Int Depth(Int depth, Int block, Int most) const {
    const Int whole = (depth + block - 1) / block * block;
    if (Is("dead-rows-kept")) return whole < most ? whole : most;
    return Is("depth-tail-dropped") || Is("hopper-depth-tail-dropped") ? depth / block * block : depth;
  }
  __device__ void StageArrived(int stage, uint32_t at, int bytes) const {
    if (Is("copy-not-waited") || (Is("hopper-full-barrier-not-awaited") && stage == 0))
      UndoCopies(at, bytes);
  }

  __device__ int64_t Tiles(int64_t tiles) const {
    constexpr int64_t kLimit = 8;  // small enough for a small case
    return Is("grid-limit") && tiles > kLimit ? kLimit : tiles;
  }
  __device__ void Barrier() const {
    if (!Is("barrier-missing")) return __syncthreads();
    if (threadIdx.x >= blockDim.x - 32) __nanosleep(kSlow);
    __syncwarp();
  }
  __device__ int StageToFill(int ahead, int read) const {
    return Is("stage-released-early") ? read : ahead;
  }

  // One cluster has a second tile in small problems too.
  int64_t Clusters(int64_t most) const { return Is("hopper-accumulator-carried") ? 1 : most; }
  __device__ int32_t RowCoordinate(int32_t row) const {
    return Is("hopper-row-coordinate-16") ? row & 0xffff : row;
  }
  __device__ int MulticastPart(int part) const {
    return Is("hopper-multicast-rank-ignored") ? 0 : part;
  }
  template <class Release>
  __device__ void BeforeProducts(uint32_t rank, const Release& release) const {
    const bool early = Is("hopper-stage-released-early");
    if (early) release();
    if (early || (Is("hopper-peer-not-awaited") && rank != 0)) __nanosleep(kSlow);
    __syncwarp();
  }
  __device__ bool ReleasesLate() const { return !Is("hopper-stage-released-early"); }
  // A warp that tells its own block in the place of the other makes up for the other's warps.
  __device__ uint32_t ReleasedBlock(uint32_t block, uint32_t rank) const {
    return Is("hopper-peer-not-awaited") ? rank : block;
  }
  __device__ bool ClearsSums(bool first_tile) const {
    return first_tile || !Is("hopper-accumulator-carried");
  }

  __device__ void StoreChain(float sum, float* own, float* first) const {
    *own = Is("atomic-sums") ? 0 : sum;
    __syncthreads();
    if (Is("atomic-sums")) atomicAdd(first, sum);
  }

 private:
  static constexpr unsigned kSlow = 3000;  // nanoseconds

  // Gives a stage what an earlier kernel may have left there. That is as late as copies that nobody
  // waits for can be, and the same wrong bits on any machine.
  __device__ static void UndoCopies(uint32_t at, int bytes) {
    constexpr uint32_t kLeft = 0x3c3c3c3c;  // 0.0115 in bf16, 1.06 in fp16
    AwaitWarpgroup();                       // the copies of its other threads
    for (int i = int(threadIdx.x % 128) * 4; i < bytes; i += 128 * 4)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + i), "r"(kLeft) : "memory");
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    AwaitWarpgroup();
  }
  // Named barriers 0 to 2 are the kernels' own.
  __device__ static void AwaitWarpgroup() {
    asm volatile("bar.sync %0, 128;" ::"r"(3 + threadIdx.x / 128) : "memory");
  }
};

}  // namespace plumbline::fuzz
