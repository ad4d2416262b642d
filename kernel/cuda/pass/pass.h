// SPDX-License-Identifier: Apache-2.0
//
// The operator's two passes as sequences of launches on one path.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/cuda/layout/row_blocks.h"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/support/paths.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// A call whose arguments have been checked.
struct Call {
  const Problem& problem;
  const Results& results;
  const Layout& layout;
  const Path& path;
  cudaStream_t stream;
  std::byte* workspace;
  SavedState saved;
  bool consumed = false;       // backward makes the saved state invalid
  const Kept* kept = nullptr;  // logits and rows' results that forward keeps; null: none
  bool needs_entropy = true;   // of rows, or what backward needs of it
  RowRange range;              // where the call's rows lie in the problem
  // These are not null where the call is one block of rows of several: logprob of all rows, for the
  // loss, and the sums of grad_weight, [V][packed_ld], which go on from block to block.
  float* row_logprob = nullptr;
  float* weight_sums = nullptr;
};

Status RunForward(const Call& call);
Status RunBackward(const Call& call);

}  // namespace plumbline::kernel::cuda
