// SPDX-License-Identifier: Apache-2.0
//
// The operator's two passes as sequences of launches on one path.

#ifndef PLUMBLINE_KERNEL_CUDA_DRIVER_H_
#define PLUMBLINE_KERNEL_CUDA_DRIVER_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/cuda/defects.h"
#include "kernel/cuda/workspace.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

struct Kept;      // kernel/cuda/kept.h
struct Path;      // kernel/cuda/paths.h
struct SavedRow;  // kernel/cuda/rows.h

extern const Path kPortablePath;
extern const Path kSimtPath;
// With the defect that Call::planted names, for bf16; fp16 has none but the driver's.
extern const Path kPlantedPortablePath;
extern const Path kHopperPath;
extern const Path kPlantedHopperPath;

// A call whose arguments have been checked.
struct Call {
  const Problem& problem;
  const Results& results;
  const Layout& layout;
  const Path& path;
  cudaStream_t stream;
  std::byte* workspace;
  Defect planted = Defect::kNone;
  const Kept* kept = nullptr;  // gradients in forward: what one pass leaves to the other
};

Status RunForward(const Call& call, SavedRow* saved);
Status RunBackward(const Call& call, const SavedRow* saved);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_DRIVER_H_
