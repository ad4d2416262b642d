// SPDX-License-Identifier: Apache-2.0
//
// The operator's two passes as sequences of launches on one path, and the calls of
// kernel/cuda/operator.h on a path that the caller chooses.

#ifndef PLUMBLINE_KERNEL_CUDA_PASS_PASS_H_
#define PLUMBLINE_KERNEL_CUDA_PASS_PASS_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/support/paths.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

struct Kept;      // kernel/cuda/layout/saved_state.h
struct SavedRow;  // kernel/cuda/stages/list_rows.h

// A call whose arguments have been checked.
struct Call {
  const Problem& problem;
  const Results& results;
  const Layout& layout;
  const Path& path;
  cudaStream_t stream;
  std::byte* workspace;
  const Kept* kept = nullptr;  // logits and rows' results that forward keeps; null: none
};

Status RunForward(const Call& call, SavedRow* saved);
Status RunBackward(const Call& call, const SavedRow* saved);

// Forward, Backward and ForwardBackward on the path that `choose` names for a device of this compute
// capability, 7.5 or higher. The operator passes its own choice; the harness passes paths into which it
// has put a defect.
using PathChoice = const Path& (*)(CudaPath asked, int capability);

Status ForwardOn(PathChoice choose, const Problem& problem, const Results& results,
                 const Execution& execution, void* workspace, void* saved);
Status BackwardOn(PathChoice choose, const Problem& problem, const Results& results,
                  const Execution& execution, void* workspace, const void* saved);
Status ForwardBackwardOn(PathChoice choose, const Problem& problem, const Results& results,
                         const Execution& execution, const UpstreamGradients& upstream,
                         void* workspace);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_PASS_PASS_H_
