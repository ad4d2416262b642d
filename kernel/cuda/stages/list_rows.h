// SPDX-License-Identifier: Apache-2.0
//
// Lists the rows that take part. The device decides, because labels, temperatures and upstream
// gradients lie there and a call may not wait for them. A list is in the order of the rows, whatever
// the device.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/cuda/epilogue/d_logits.cuh"
#include "kernel/cuda/layout/row_blocks.h"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// A vector of the problem as a kernel reads it; data null: absent.
struct VectorView {
  const void* data = nullptr;
  int64_t stride = 0;  // elements
};

// The inputs that decide which rows take part.
struct RowInputs {
  int64_t rows = 0, vocab = 0, ignore_index = 0;
  // The rows are those from `first` on of a problem of `all` rows, whose vectors go on before them and
  // behind. Census::counted and first_invalid are over all.
  int64_t first = 0, all = 0;
  VectorView labels;
  bool labels_64 = false;
  VectorView temperature;   // fp32; stride 0: one for all
  VectorView grad_logprob;  // fp32; under a reduction the loss's, stride 0
  VectorView grad_entropy;  // fp32
  Reduction reduction = Reduction::kNone;
};

// Returns the inputs of a problem whose rows are a block of a larger one's, or all of it.
RowInputs RowInputsOf(const Problem& problem, const RowRange& range);

// Counts of one list, and the counters of a pass's products, in the workspace.
struct Census {
  int32_t live;           // rows on the list
  int32_t compacted;      // whether they are fewer than there are, so that list and rows differ
  int64_t counted;        // what `mean` divides by: rows not ignored
  int64_t first_invalid;  // of all rows; -1: none
  // Product::begun, made 0 with the list: of the products that await the previous launch, and of those
  // that may run beside it.
  int32_t begun, begun_beside;
};
static_assert(sizeof(Census) <= 64);  // of its region (layout/workspace.cc)

// Forward's list: the rows whose softmax is computed, which are neither ignored nor invalid. A place is
// an index into the list.
struct ForwardList {
  Census* census;
  int32_t* source;     // [live] the row of the problem
  int64_t* label;      // [live]
  float* scale;        // [live] log2 e / T
  float* temperature;  // [live]
  int32_t* slot;       // [rows] the place on the list, -1: not on it; null: not wanted
};

// Outputs of forward. ListForward writes those of rows that are not on the list: +0 where ignored, NaN
// where invalid. Null data: not asked for. row_logprob, row_entropy and row_lse are dense.
struct ForwardOutputs {
  float *logprob = nullptr, *entropy = nullptr, *lse = nullptr;
  int64_t logprob_stride = 0, entropy_stride = 0, lse_stride = 0;
  float *row_logprob = nullptr, *row_entropy = nullptr, *row_lse = nullptr;
  int64_t* first_invalid_row = nullptr;
  TileOffsets offsets = {};  // of kept exponents, by place; FinishRows alone writes them
};

// Writes the saved state's header too.
Status ListForward(const RowInputs& inputs, const ForwardList& list, const ForwardOutputs& outputs,
                   const SavedState& saved, cudaStream_t stream);

// The numbers of a row that forward leaves for backward. A row without a softmax has a NaN sum.
struct SavedRow {
  float max, sum, mean_gap, label_logit;
};

// Backward's list: the rows that have a gradient, among them the invalid ones, whose gradient is NaN.
// In `slot`, kZeroRow marks a row without a gradient and kInvalidRow an invalid one.
inline constexpr int32_t kZeroRow = -1, kInvalidRow = -2;

struct BackwardList {
  Census* census;
  int32_t* source;    // [live]
  int32_t* slot;      // [rows] the place on the list; kZeroRow or kInvalidRow
  RowGradient* rows;  // [live]
  // [rows] forward's places, in the saved state and copied; null: no logits are kept.
  const int32_t* forward_slot;
  int32_t* kept_slot;
};

// Where the saved state's header is not the expected one, every row is listed as invalid and none has a
// place of forward's, so that every gradient is NaN and nothing else of the state is read.
Status ListBackward(const RowInputs& inputs, const SavedState& saved, const BackwardList& list,
                    cudaStream_t stream);

}  // namespace plumbline::kernel::cuda
