// SPDX-License-Identifier: Apache-2.0
//
// Lays out what the host implementation keeps in the caller's memory. The plan is a function of shapes,
// of which gradients are asked for and of the number of threads, never of contents. With n, v, h the
// problem's sizes, c = min(1024, v rounded up to 64), S = splits <= 8 and t threads:
//
//   workspace = t * scratch + max(forward, backward), every region rounded up to 64 bytes
//   scratch   = 4 * (96 * max(h, 256) + 256 * 64 + 96 * 512)
//   forward   = n * (8 + 4 + 4 + 12 S)
//   backward  = n * (8 + 4 + 4 + 4 c) [+ n * 4 * (h rounded up to 64) with grad_hidden]
//   saved     = a header of 64 bytes and 4 arrays of n floats where a gradient is asked for
//
// Forward and backward share the memory after the scratch; neither reads what the other left there.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/host/softmax_state.h"
#include "kernel/host/tiling.h"
#include "kernel/problem.h"
#include "kernel/saved_header.h"

namespace plumbline::kernel::host {

// Memory of one thread.
struct Scratch {
  float* rows;     // [kRowBlock][max(h, kDepthBlock)]: the left operand
  float* panels;   // [kDepthBlock][kTile]: the right operand, packed
  float* product;  // [kRowBlock][kColumnGroup]
};

struct ForwardMemory {
  int64_t* rows;         // [n] those that are computed, ascending
  float* label_logit;    // [n] by position in rows
  float* logprob;        // [n] by row, for the loss
  SoftmaxState* states;  // [splits][n]
};

struct BackwardMemory {
  int64_t* rows;       // [n] those that take part, ascending
  float* g;            // [n] by position in rows
  float* k;            // [n]
  float* d_logits;     // [n][chunk]
  float* grad_hidden;  // [n][h rounded up to kTile]; null where not asked for
  float* totals;       // likewise, of stretches that have ended; null where there are none
};

// Arrays that forward leaves for backward, indexed by row.
template <class Float>
struct SavedRows {
  Float* m;  // the largest logit, before the temperature
  Float* s;  // sum of exp(-t)
  Float* log_s;
  Float* entropy;
};

struct Plan {
  int64_t n = 0, v = 0, h = 0;
  VocabTiling tiling{0};
  int64_t chunk = 0;    // columns of d_logits held at a time
  int64_t stretch = 0;  // columns of a stretch of grad_hidden, whole chunks; 0: one chain
  int threads = 1;
  size_t scratch_bytes = 0;  // of one thread
  size_t workspace_bytes = 0;
  size_t saved_bytes = 0;
  bool with_grad_hidden = false;
  SavedHeader saved_header;  // with which the saved state begins

  Scratch ScratchOf(void* workspace, int worker) const;
  ForwardMemory Forward(void* workspace) const;
  BackwardMemory Backward(void* workspace) const;
  SavedRows<float> Saved(void* saved) const;
  SavedRows<const float> Saved(const void* saved) const;
};

// Makes the plan; nullopt where a size does not fit in 62 bits. `threads` is that of Execution.
// `stretches`: grad_hidden is summed in stretches; c above is then at most 384, and backward takes 4 n
// times h, rounded up to 64, more with it.
std::optional<Plan> MakePlan(const Problem& problem, const Results& results, int threads,
                             bool stretches);

}  // namespace plumbline::kernel::host
