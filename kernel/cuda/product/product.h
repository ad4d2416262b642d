// SPDX-License-Identifier: Apache-2.0
//
// One matrix product on the device, as the driver asks a path for it: C[m, n] = sum over k of
// A(m, k) B(n, k). The operator has three, and each path one main loop for all of them:
//
//   logits        A = hidden [rows, H]                B = weight [columns, H]          depth H
//   grad_hidden   A = d_logits [rows, columns]        B = weight [columns, H]^T        depth columns
//   grad_weight   A = d_logits [rows, columns]^T      B = hidden [rows, H]^T           depth rows
//
// Operands hold 16-bit floats. An fp32 matrix comes as four planes of bf16, {lo, mid, hi, raw}: the
// three of kernel/host/tensor_core.h, in which what is infinite or NaN is 0, and `raw`, which is hi
// with infinities and NaN left in. Six passes over the depth, the small ones first, go through one
// accumulator; the last, raw by raw, is where an infinity meets every operand once.

#ifndef PLUMBLINE_KERNEL_CUDA_PRODUCT_PRODUCT_H_
#define PLUMBLINE_KERNEL_CUDA_PRODUCT_PRODUCT_H_

#include <cstdint>

#include "kernel/cuda/product/kept_chunk.h"

namespace plumbline::kernel::cuda {

inline constexpr int kPlanes = 4;  // of an fp32 operand
inline constexpr int kPlanePasses = 6;

// The planes of A and B that a pass multiplies; with a single pass, plane 0 of both.
struct PassPlanes {
  int a, b;
};

// Whether rows that begin at `data`, `stride` elements of `width` bytes apart, all begin at a multiple
// of 16 bytes: what copies and wide stores need.
inline bool RowsAligned(const void* data, int64_t stride, int64_t width) {
  constexpr int64_t kLine = 16;
  return reinterpret_cast<uintptr_t>(data) % kLine == 0 && stride % (kLine / width) == 0;
}

// A matrix in device memory: rows of contiguous elements, from a 16-byte aligned address, each row a
// multiple of 16 bytes after the one before. Nothing beyond rows and columns is read; it counts as 0.
struct Operand {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t ld = 0;            // elements between rows, at least columns
  int64_t plane_stride = 0;  // elements between planes
  int planes = 1;            // 1 or kPlanes
};

struct Product {
  Operand a, b;
  // Read in the place of a or b where *use_alternative is not 0: the rows of hidden that take part,
  // moved together. data null: there is none.
  Operand a_alternative, b_alternative;
  const int32_t* use_alternative = nullptr;  // device
  int64_t m = 0, n = 0, k = 0;               // at most; what is live is known on the device alone
  // How many rows of hidden take part, all told; null: all that m (or k) says. Of those, this product
  // has the ones from live_first on: clamp(*live_rows - live_first, 0, m or k) of them.
  const int32_t* live_rows = nullptr;  // device
  int64_t live_first = 0;
  bool live_is_depth = false;  // grad_weight: they bound k, not m
  // Whether nothing that it reads or overwrites is touched by the launch before it, only by those that
  // had ended when that one began: it may then run beside it. A path may ignore this.
  bool beside_previous = false;
  int passes = 1;  // or kPlanePasses
  // d_logits of another chunk, which nothing before reads, to be made beside a gradient's product: the
  // rows kept_part, kept_part + kept_parts, … Only for a path that says it does (Path::makes_kept).
  KeptChunk kept;
  int kept_part = 0, kept_parts = 1;
};

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_PRODUCT_PRODUCT_H_
