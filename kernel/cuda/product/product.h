// SPDX-License-Identifier: Apache-2.0
//
// One matrix product on the device, as a pass asks a path for it: C[m, n] = sum over k of A(m, k) B(n,
// k). The operator has three, and each path has one main loop for all of them:
//
//   logits        A = hidden [rows, H]                B = weight [columns, H]          depth H
//   grad_hidden   A = d_logits [rows, columns]        B = weight [columns, H]^T        depth columns
//   grad_weight   A = d_logits [rows, columns]^T      B = hidden [rows, H]^T           depth rows
//
// Hopper's path has another main loop that computes both gradients of few rows.
//
// Operands hold 16-bit floats. An fp32 matrix comes as four planes of bf16, {lo, mid, hi, raw}. The
// first three are those of kernel/host/tensor_core.h, in which infinities and NaN are 0; `raw` is hi
// with infinities and NaN left in. Six passes over the depth, the small ones first, go through one
// accumulator. The last multiplies raw by raw, so that an infinity meets every operand once.

#pragma once

#include <cstdint>

#include "kernel/cuda/product/kept_chunk.h"

namespace plumbline::kernel::cuda {

inline constexpr int kPlanes = 4;  // of an fp32 operand
inline constexpr int kPlanePasses = 6;
// A problem of at most so many rows, whose hidden size is a multiple of kSweepColumns, may have both
// gradients computed by one sweep over weight (hopper/sweep_kernel.cuh).
inline constexpr int kSweepRows = 128, kSweepColumns = 512;

// The planes of A and B that a pass multiplies; with a single pass, plane 0 of both.
struct PassPlanes {
  int a, b;
};

// Returns whether rows that begin at `data`, `stride` elements of `width` bytes apart, all begin at a
// multiple of 16 bytes, as copies and wide stores need.
inline bool RowsAligned(const void* data, int64_t stride, int64_t width) {
  constexpr int64_t kLine = 16;
  return reinterpret_cast<uintptr_t>(data) % kLine == 0 && stride % (kLine / width) == 0;
}

// A matrix in device memory: rows of contiguous elements from a 16-byte aligned address, each row a
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
  // Operands that are read in the place of a or b where *use_alternative is not 0: the rows of hidden
  // that take part, packed together. data null: there is none.
  Operand a_alternative, b_alternative;
  const int32_t* use_alternative = nullptr;  // device
  int64_t m = 0, n = 0, k = 0;               // bounds; the live rows are known on the device alone
  // Number of rows of hidden that take part in the pass; null: as many as m (or k). This product has
  // those from live_first on: clamp(*live_rows - live_first, 0, m or k) of them.
  const int32_t* live_rows = nullptr;  // device
  int64_t live_first = 0;
  bool live_is_depth = false;  // grad_weight: they bound k, not m
  // Above 0, a multiple of 64: a product for each stretch of so many of the depth, with an epilogue of
  // its own (AccumulateEpilogue::Of). Only for a path that has Path::stretches_at_once.
  int64_t stretch = 0;
  // Whether those of a tile are stored one after another, so that each may add to the results of the
  // one before.
  bool in_turn = false;
  // True if this product neither reads nor overwrites what the launch before it writes, but depends
  // only on launches that had ended when that one began. It may then run concurrently with that launch.
  // A path may ignore this.
  bool beside_previous = false;
  // That launch, if it is grad_hidden's product: its depth, and its stretches that are not in turn.
  int64_t beside_depth = 0;
  int beside_stretches = 1;
  // Counts the tiles that have begun while the product runs, of each stretch unless they are in turn; 0
  // before and after it, in device memory.
  // Products that may run concurrently have one each. null: none. A path may ignore this.
  int32_t* begun = nullptr;
  int passes = 1;  // or kPlanePasses
  // Another chunk, whose d_logits are computed while this gradient's product runs: of every kept_parts
  // rows the kept_count from number kept_part on. The launch before this one does not read them. Only
  // for a path that has Path::makes_kept.
  KeptChunk kept;
  int kept_part = 0, kept_count = 1, kept_parts = 1;
};

}  // namespace plumbline::kernel::cuda
