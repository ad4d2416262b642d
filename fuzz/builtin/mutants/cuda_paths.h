// SPDX-License-Identifier: Apache-2.0
//
// Paths (kernel/cuda/stages/path.h) whose kernels, and the steps of a pass around them, ask at run time
// which defect is active. The functions of a path are only given their product. The rest is looked up
// in the call that the thread is in.

#ifndef PLUMBLINE_FUZZ_BUILTIN_MUTANTS_CUDA_PATHS_H_
#define PLUMBLINE_FUZZ_BUILTIN_MUTANTS_CUDA_PATHS_H_

#include <cstddef>

#include "kernel/cuda/support/defects.h"
#include "kernel/problem.h"

namespace plumbline::kernel::cuda {
struct Path;
}

namespace plumbline::fuzz {

extern const kernel::cuda::Path kPlantedPortablePath;
extern const kernel::cuda::Path kPlantedHopperPath;

struct PlantedCall {
  kernel::cuda::Defect defect = kernel::cuda::Defect::kNone;
  const kernel::Problem* problem = nullptr;
  const kernel::Results* results = nullptr;
  std::byte* workspace = nullptr;

  kernel::cuda::PlantedDefect plan() const { return {static_cast<int>(defect)}; }
};

// The call that this thread is in. Valid inside ForwardPlanted and BackwardPlanted.
const PlantedCall& CurrentPlantedCall();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BUILTIN_MUTANTS_CUDA_PATHS_H_
