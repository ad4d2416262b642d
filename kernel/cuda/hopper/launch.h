// SPDX-License-Identifier: Apache-2.0
//
// The Hopper path (compute capability 9.0): the operator's matrix products through TMA and wgmma. Each
// function enqueues one product (kernel/cuda/product/product.h), or two, for the current device;
// nothing is allocated, waited for or read back. Elements are __nv_bfloat16 or __half; fp32 comes as
// planes of bf16.
//
// Each function returns kFailed with CUDA's words where a launch fails, and kUnsupported, naming
// operand and value, where the accelerator cannot address an operand (tensor_map.h) or where m, n or k
// is above 2^31 - 1024.
//
// The depth ends at product.k, wherever extents end. Where live rows end it earlier, both operands hold
// zeros from there to the next multiple of 64. A depth of 0 stores zeros.

#pragma once

#include <cuda_runtime_api.h>

#include "kernel/cuda/stages/path.h"

namespace plumbline::kernel::cuda::hopper {

// Columns of a tile of Forward and DLogits. DLogits writes whole tiles, so d_logits.ld reaches to the
// end of the last one.
inline constexpr int kSoftmaxColumns = 192;

// A is [m, k] and B is [n, k], both K-major: rows as they lie in memory.
template <class Element>
Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream);
template <class Element>
Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream);
// A is [m, k], K-major; B is [k, n], MN-major.
template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream);
// A is [k, m] and B is [k, n], both MN-major.
template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream);
// The same of one block of rows, with bf16 elements.
Status GradWeightOfBlock(const Product& product, const GradWeightBlockEpilogue& epilogue,
                         cudaStream_t stream);
// Both of at most kSweepRows rows, where H is a multiple of kSweepColumns: the products of GradHidden
// and GradWeight, over the same d_logits.
// Stretches are not in turn. A stretch that ends within the depth ends at a multiple of 64.
template <class Element>
Status BothGradients(const Product& hidden, const AccumulateEpilogue& sums, const Product& weight,
                     const GradWeightLines<Element>& lines, cudaStream_t stream);

}  // namespace plumbline::kernel::cuda::hopper
