// SPDX-License-Identifier: Apache-2.0
//
// A path: the kernels of the operator's products for one kind of device. Everything else (which rows
// take part, packing, the reduction of partial sums, the order of the launches) is common to all paths.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "kernel/cuda/epilogue/d_logits.cuh"
#include "kernel/cuda/epilogue/forward.cuh"
#include "kernel/cuda/epilogue/gradients.cuh"
#include "kernel/cuda/layout/saved_state.h"
#include "kernel/cuda/product/product.h"
#include "kernel/cuda/stages/finish.h"
#include "kernel/cuda/stages/kept_d_logits.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// Each function enqueues one product, or both gradients'. It returns kFailed with CUDA's words where a
// launch fails.
template <class Element>
struct ProductKernels {
  Status (*forward)(const Product&, const ForwardEpilogue&, cudaStream_t);
  Status (*d_logits)(const Product&, const DLogitsEpilogue<Element>&, cudaStream_t);
  Status (*grad_hidden)(const Product&, const AccumulateEpilogue&, cudaStream_t);
  Status (*grad_weight)(const Product&, const GradWeightEpilogue&, cudaStream_t);
  // Both gradients of at most kSweepRows rows, by one sweep over weight; null: a path without one.
  Status (*both_gradients)(const Product& hidden, const AccumulateEpilogue&, const Product& weight,
                           const GradWeightLines<Element>&, cudaStream_t) = nullptr;
  // This is not a product. It is the same on all paths but those of the harness.
  decltype(&KeptDLogits<Element>) kept_d_logits = &KeptDLogits<Element>;
};

// The constants of this type, one a path, are declared in kernel/cuda/support/paths.h.
struct Path {
  int partial_columns;  // of a partial sum of a row: one of kPartialColumns
                        // (kernel/cuda/layout/workspace.h)
  ProductKernels<__nv_bfloat16> bf16;
  ProductKernels<__half> f16;
  // grad_weight of one block of rows of several, which are of bf16 problems alone.
  Status (*grad_weight_of_block)(const Product&, const GradWeightBlockEpilogue&, cudaStream_t);
  // The last stages are the same on all paths; a path of the harness may have its own.
  decltype(&FinishRows) finish_rows = &FinishRows;
  decltype(&FinishGradient) finish_grad_hidden = &FinishGradient;
  decltype(&AddStretches) add_stretches = &AddStretches;
  bool stretches_at_once = false;  // whether grad_hidden's product may be of several (Product::stretch)
  bool makes_kept = false;         // whether the gradients' products make Product::kept
};

// Returns what is kept of logits, with the numbers that follow from the tiles of a path.
inline Kept OnPath(Kept kept, const Path& path) {
  kept.tile_columns = path.partial_columns;
  kept.offsets.first = kept.first_column / path.partial_columns;
  return kept;
}

template <class Element>
const ProductKernels<Element>& KernelsOf(const Path& path);
template <>
inline const ProductKernels<__nv_bfloat16>& KernelsOf(const Path& path) {
  return path.bf16;
}
template <>
inline const ProductKernels<__half>& KernelsOf(const Path& path) {
  return path.f16;
}

}  // namespace plumbline::kernel::cuda
