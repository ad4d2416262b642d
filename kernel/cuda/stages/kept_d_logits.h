// SPDX-License-Identifier: Apache-2.0
//
// Computes d_logits of a chunk of the vocabulary from logits or exponents that forward kept
// (kernel/cuda/layout/saved_state.h), in a launch of its own. It is bound by memory: it reads 4 bytes,
// or 2, and writes 2 (fp32 problems 8) an element.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/cuda/epilogue/d_logits.cuh"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/product/kept_chunk.h"
#include "kernel/cuda/stages/list_rows.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// Returns the inputs and output of a chunk. The epilogue says where d_logits lie and which columns they
// are; forward has kept all of these.
template <class Element>
KeptChunk KeptChunkOf(const Kept& kept, const BackwardList& list,
                      const DLogitsEpilogue<Element>& epilogue);

// Enqueues d_logits of a chunk. `rows` bounds the list. It writes the rows on the list and zeros up to
// a multiple of 64 rows, and in each row zeros up to a multiple of 8 columns.
template <class Element>
Status KeptDLogits(const Kept& kept, const BackwardList& list, int64_t rows,
                   const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream);

}  // namespace plumbline::kernel::cuda
