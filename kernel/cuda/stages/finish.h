// SPDX-License-Identifier: Apache-2.0
//
// The last stages: reduce the partial sums of tiles to the outputs of a row, reduce rows to the loss,
// and convert gradients from fp32 sums to the dtype and strides of the output.
//
// Every order of addition is a function of the vocabulary and the tile width alone. First comes the
// exact maximum over all tiles. Then each tile's sums are rescaled to it once and added in 32 strided
// chains, and these in a tree.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/cuda/epilogue/gradients.cuh"
#include "kernel/cuda/stages/list_rows.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// The partial sums of the rows [first, first + rows) of a list, as SoftmaxEpilogue wrote them.
struct PartialSums {
  // [tiles][stride]. moment null: no entropy is asked for, and the saved mean gaps are 0.
  const float *max = nullptr, *sum = nullptr, *moment = nullptr;
  int64_t stride = 0;
  int64_t tiles = 0;
  int64_t first = 0, rows = 0;
  const float* label_logit = nullptr;  // [live]
};

// Writes the outputs of the rows on the list, and saved (null: not wanted).
Status FinishRows(const PartialSums& partial, const ForwardList& list, const ForwardOutputs& outputs,
                  SavedRow* saved, cudaStream_t stream);

// Writes loss = -(sum of row_logprob), divided by the rows counted where `mean`; in double.
Status FinishLoss(const float* row_logprob, int64_t rows, const Census* census, bool mean, float* loss,
                  cudaStream_t stream);

// Sums of stretches of grad_hidden that were computed together: count matrices [live][ld], `apart`
// elements after each other.
struct StretchSums {
  const float* data = nullptr;
  int64_t apart = 0;
  int count = 0;
};

// Adds them to totals in order; sets these to the first one's where nothing is there yet.
Status AddStretches(const StretchSums& sums, float* totals, int64_t ld, int64_t columns, int64_t rows,
                    const Census* census, bool first, cudaStream_t stream);

struct GradientOutput {
  void* data = nullptr;
  Stored stored = Stored::kF32;
  int64_t row_stride = 0, column_stride = 0;  // elements; any
  int64_t rows = 0, columns = 0;
};

// Stores a gradient from sums, [place][ld]. Rows whose slot is kZeroRow are +0, those of kInvalidRow
// NaN. slot null: each row's place is its own number.
Status FinishGradient(const float* sums, int64_t ld, const int32_t* slot, const GradientOutput& output,
                      cudaStream_t stream);

}  // namespace plumbline::kernel::cuda
