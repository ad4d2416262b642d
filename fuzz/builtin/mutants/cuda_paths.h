// SPDX-License-Identifier: Apache-2.0
//
// Paths of the CUDA operator (kernel/cuda/stages/path.h) with the defects of the mutants. Kernels for
// bf16, and so for fp32 in planes, ask at run time which defect is active, as do the steps of a pass
// around them. In fp16 only the steps do. The functions of a path are given their product alone. The
// rest is looked up in the call that the thread is in.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "fuzz/builtin/mutants/table.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {
struct Path;
}

namespace plumbline::fuzz {

extern const kernel::cuda::Path kMutantPortablePath;
extern const kernel::cuda::Path kMutantHopperPath;
extern const kernel::cuda::Path kMutantHopperTogetherPath;  // stretches are computed together

// Sets *path to the one that has a mutant's defect. kUnsupported if the device has no such path: 8.0 is
// the least, and Hopper's defects need 9.0.
kernel::Status FindPath(const MutantRow& mutant, const kernel::cuda::Path** path);

// Calls `backward`, which consumes the state, twice, the second time with the header that the state
// had.
kernel::Status WithItsHeaderAgain(const void* saved, void* stream,
                                  const std::function<kernel::Status()>& backward);

struct CudaMutantCall {
  int active = kNoMutant;
  const kernel::Problem* problem = nullptr;
  const kernel::Results* results = nullptr;
  std::byte* workspace = nullptr;
  int64_t number = 0;  // of forward passes that this thread has begun

  bool Is(CudaMutantName name) const { return active == name.row; }
};

// The call that this thread is in.
const CudaMutantCall& CurrentCall();

}  // namespace plumbline::fuzz
