// SPDX-License-Identifier: Apache-2.0
//
// Grids that overlap on one stream (PTX ISA, griddepcontrol). A grid enqueued with programmatic stream
// serialization may begin once every block of the grid before it has called AllowNextGrid or ended.
// AwaitPreviousGrid returns when that grid is complete and its writes are visible. It returns at once
// in a grid enqueued without serialization, and below compute capability 9.0, where nothing overlaps.

#pragma once

namespace plumbline::kernel::cuda {

__device__ inline void AllowNextGrid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void AwaitPreviousGrid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace plumbline::kernel::cuda
